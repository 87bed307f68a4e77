package bench;

/** What the filter scenario keeps of an order. */
public record OrderLine(long orderId, String user, String product, long amount) {
  static OrderLine of(Order order) {
    return new OrderLine(order.orderId(), order.user(), order.product(), order.amount());
  }
}
