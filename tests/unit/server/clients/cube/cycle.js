// What Cube does with `@cubejs-backend/ksql-driver`: node cube_cycle.js URL; prints what each call gave as one JSON object.
const { KsqlDriver } = require("@cubejs-backend/ksql-driver");

async function cycle(driver) {
  const found = {};
  await driver.testConnection(); // SHOW VARIABLES
  found.tables = await driver.fetchTables();
  found.schema = await driver.tablesSchema();
  found.created = await driver.loadPreAggregationIntoTable(
    "shop.totals", "CREATE TABLE `shop.totals` WITH (kafka_topic='totals') AS SELECT k, COUNT(*) AS n FROM s GROUP BY k",
    [], { streamOffset: "earliest" });
  found.described = await driver.describeTable("shop.totals");
  found.download = await driver.downloadTable("shop.totals", { streamOffset: "earliest" });
  found.preAggregations = await driver.getTablesQuery("shop");
  found.dropped = await driver.dropTable("shop.totals");
  found.refused = await driver.query("DROP TABLE nope", []).catch((error) => error.message);
  found.select = await driver.query("SELECT * FROM s", []).catch((error) => error.message);
  return found;
}

cycle(new KsqlDriver({ url: process.argv[2], username: "", password: "" })).then(
  (found) => console.log(JSON.stringify(found)),
  (error) => { console.error(error); process.exit(1); });
