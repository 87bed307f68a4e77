package bench;

/** Two orders of a user that a join brings together. */
record Pair(Order left, Order right) {}
