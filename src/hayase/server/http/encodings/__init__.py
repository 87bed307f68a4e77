"""The forms in which rows are sent: lines, an array of arrays, arrays of StreamedRow in JSON or with Protobuf."""
