package bench;

/** A row of the table of products as it lies in its topic. The record's key is the product. */
public record Product(String product, String name, long price) {}
