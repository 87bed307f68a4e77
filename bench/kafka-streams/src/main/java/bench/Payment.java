package bench;

/** What an order costs, as far as it counts as revenue. */
public record Payment(long cents, boolean paid) {
  static Payment of(Order order) {
    return new Payment(order.amount() * order.quantity(), order.status().equals("paid"));
  }
}
