package bench;

/** A row of the table of users as it lies in its topic. The record's key is the user. */
public record User(String user, String name, String city, int tier) {}
