package bench;

/** An order with what the table says about its user. */
public record Enriched(long orderId, long amount, String city, int tier) {
  static Enriched of(Order order, User user) {
    return new Enriched(order.orderId(), order.amount(), user.city(), user.tier());
  }
}
