package bench;

/** The last order of a user, and the price of its product. */
public record Priced(long orderId, long amount, long price) {
  static Priced of(Order order, Product product) {
    return new Priced(order.orderId(), order.amount(), product.price());
  }
}
