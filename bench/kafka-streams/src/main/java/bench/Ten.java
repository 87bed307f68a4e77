package bench;

import java.util.Locale;
import java.util.regex.Pattern;

/** A value in the output of `ten_expressions`. */
record Ten(
    long cents,
    long each,
    boolean large,
    String region,
    String what,
    int length,
    long paid,
    long distance,
    String masked,
    String kind) {
  private static final Pattern LOWER_CASE = Pattern.compile("[a-z]");
  private static final Pattern NUMBER = Pattern.compile("[0-9]+");

  static Ten of(Order order) {
    return new Ten(
        order.amount() * order.quantity(),
        order.amount() / order.quantity(),
        order.amount() > 5_000,
        order.region().toUpperCase(Locale.ROOT),
        order.user() + "/" + order.product(),
        order.product().length(),
        order.status().equals("paid") ? order.amount() : 0,
        Math.abs(order.quantity() - 5),
        LOWER_CASE.matcher(order.status()).replaceAll("x"),
        NUMBER.matcher(order.product()).replaceAll("#"));
  }
}
