package bench;

/** How many orders of a key were paid, and what they cost. */
public record Revenue(long paid, long cents) {
  static Revenue none() {
    return new Revenue(0, 0);
  }

  Revenue plus(Payment payment) {
    return payment.paid() ? new Revenue(paid + 1, cents + payment.cents()) : this;
  }
}
