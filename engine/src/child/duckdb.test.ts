import assert from 'node:assert/strict'
import { test } from 'node:test'
import { execute, lookForThreads, openDuckDb, prepare, runInThreads } from './duckdb.ts'

const SQL = 'SELECT count(*) FROM range(100000) t(i) WHERE i % 3 = 0'

test('a statement comes to its end, whether the system has given DuckDB threads or none', {
  timeout: 60_000,
}, async () => {
  const connection = await openDuckDb()
  // As one whose threads could not be begun: it has none besides who runs a statement.
  for (const threads of ['external_threads = 1', 'external_threads = 0']) {
    await execute(connection, `SET ${threads}`)
    await lookForThreads(connection)
    for (let turn = 0; turn < 3; turn += 1) {
      const result = await runInThreads(await prepare(connection, SQL, []))
      assert.deepEqual(await result.getRows(), [[33334n]])
    }
    const failing = await prepare(connection, "SELECT error('as it was asked')", [])
    await assert.rejects(runInThreads(failing), /as it was asked/)
  }
})
