package bench;

/** An order as it lies in the input topic. The record's key is the user. */
public record Order(
    long orderId, String user, String product, String region, long amount, int quantity, String status) {}
