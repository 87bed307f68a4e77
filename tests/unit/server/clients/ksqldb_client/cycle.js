// The cycle of `ksqldb-client`: node ksqldb_client_cycle.js PORT; prints what each call gave as one JSON object.
const KsqldbClient = require("ksqldb-client");

async function until(ask, holds) {
  for (;;) {
    const answer = await ask();
    if (holds(answer)) return answer;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function cycle(client) {
  const earliest = { properties: { "auto.offset.reset": "earliest" } };
  const found = {};
  found.stream = await client.executeStatement(
    "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);");
  found.table = await client.executeStatement("CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;");
  found.inserted = [await client.insertInto("s", { K: "a", V: 1 }), await client.insertInto("s", { K: "a", V: 2 })];
  found.pulled = await until(
    () => client.query("SELECT * FROM t WHERE k = 'a';"),
    (answer) => answer.data && answer.data.rows.length && answer.data.rows[0].N === 2);
  const pushed = [];
  const ended = await client.streamQuery(
    "SELECT v FROM s EMIT CHANGES LIMIT 2;", (data) => pushed.push(...(data.rows || [])), earliest);
  found.pushed = { rows: pushed, status: ended.status };
  found.closed = await new Promise((resolve, reject) => {
    let closing;
    client.streamQuery("SELECT * FROM s EMIT CHANGES;", (data) => {
      closing = closing || client.terminatePushQuery(data.metadata.queryId);
    }).then((answer) => closing.then((closed) => resolve([answer.status, closed.status])), reject);
  });
  found.streams = await client.listStreams();
  found.tables = await client.listTables();
  found.topics = await client.listTopics();
  found.queries = await client.listQueries();
  found.described = await client.describeSource("t");
  found.terminated = await client.executeStatement(`TERMINATE ${found.queries[0].id};`);
  found.refused = await client.executeStatement("DROP TABLE nope;");
  found.refusedQuery = await client.query("SELECT * FROM nope;");
  return found;
}

async function main() {
  const client = new KsqldbClient({ host: "http://127.0.0.1", port: process.argv[2] });
  await client.connect();
  console.log(JSON.stringify(await cycle(client)));
  await client.disconnect();
}

main().catch((error) => { console.error(error); process.exit(1); });
