package bench;

/** How many orders a key has, and the sum of their amounts in cents. */
public record Totals(long n, long total) {
  static Totals none() {
    return new Totals(0, 0);
  }

  Totals plus(Totals other) {
    return new Totals(n + other.n, total + other.total);
  }

  Totals plus(Order order) {
    return new Totals(n + 1, total + order.amount());
  }

  Totals minus(Order order) {
    return new Totals(n - 1, total - order.amount());
  }
}
