"""Files of a verdict that other tools read: JUnit's XML, SARIF, plain JSON."""
