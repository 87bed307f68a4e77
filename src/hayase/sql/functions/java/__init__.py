"""Rules of Java's library that functions follow: texts in UTF-16, regular expressions, URIs, patterns of dates."""
