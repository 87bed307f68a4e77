package bench;

/** A paid order and one that its user took back near it. */
public record Settled(long orderId, long voidId, long amount) {
  static Settled of(Order paid, Order taken) {
    return new Settled(paid.orderId(), taken.orderId(), paid.amount() - taken.amount());
  }
}
