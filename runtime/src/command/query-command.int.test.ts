/** Rows that leave in every format, at every limit: whole, or cut where it is said, never less without a word. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createEngine, type Engine, rowsOf } from '@sluice/engine'
import { testEngineProgram } from '@sluice/engine/testing'
import { queryRoutes } from '../http/routes/query.ts'
import { startTestServer, type TestServer } from '../http/test-server.ts'
import type { QueriesDeps } from '../operations/queries/deps.ts'
import { callOf } from './command.ts'
import { QUERY_COMMANDS } from './query-command.ts'

/** Many rows are more than a stream sends in one go, before which a failure still has a status. */
const FEW = 5
const MANY = 20_000
const MIB = 1024 * 1024

const limits = {
  query_memory_mb: 256,
  query_timeout_ms: 600_000,
  query_rows: FEW,
  export_rows: FEW,
}

let folder = ''
let engine: Engine
let server: TestServer

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-exports-'))
  const program = await testEngineProgram()
  engine = createEngine({
    scratchDir: join(folder, 'scratch'),
    ...program,
    maxChildren: 2,
    warmChildren: 1,
    maxQueued: 2,
  })
  const pool = { query: async () => ({ rows: [{ status: 'active' }] }) }
  const platform = { config: { limits }, engine, pool, served: { named: async () => [] }, distributedQueries: null }
  server = await startTestServer(queryRoutes(platform as unknown as QueriesDeps))
  process.env['SLUICE_URL'] = server.url
  process.env['SLUICE_TOKEN'] = await server.token()
})

after(async () => {
  delete process.env['SLUICE_URL']
  delete process.env['SLUICE_TOKEN']
  await server?.[Symbol.asyncDispose]()
  await engine?.close()
  await rm(folder, { recursive: true, force: true })
})

const sqlOf = (rows: number): string => `SELECT i, 'row ' || i AS mark FROM range(${rows}) r(i)`

interface Saved {
  readonly failure: string | null
  /** Null where the file is not there. */
  readonly rows: number | null
}

async function saved(format: string, rows: number, limit?: number): Promise<Saved> {
  const file = join(folder, `rows.${format}`)
  await rm(file, { force: true })
  const flags = { format, output: file, ...(limit === undefined ? {} : { limit: String(limit) }) }
  const call = callOf({ words: [], flags }, [sqlOf(rows)], { environment: {}, flags: { 'data-dir': folder } })
  const failure = await QUERY_COMMANDS['query']?.run(call).then(
    () => null,
    (error: Error) => error.message,
  )
  assert.ok(!existsSync(`${file}.part`), 'no part of a file is left')
  return { failure: failure ?? null, rows: existsSync(file) ? await countRows(format, file) : null }
}

async function countRows(format: string, file: string): Promise<number> {
  if (format === 'parquet') {
    const output = { kind: 'rows', sql: `SELECT count(*)::INTEGER FROM read_parquet('${file}')` } as const
    const own = { memoryBytes: 256 * MIB, timeoutMs: 600_000, threads: 1 }
    const run = await engine.run({ trust: 'own', output, readPaths: [file], limits: own }, AbortSignal.timeout(600_000))
    for await (const rows of rowsOf(run)) return Number(rows[0]?.[0])
  }
  const text = await readFile(file, 'utf8')
  if (format === 'json') return (JSON.parse(text) as { rows: unknown[] }).rows.length
  return text.trimEnd().split('\n').length - (format === 'csv' ? 1 : 0)
}

describe('exports', () => {
  for (const format of ['csv', 'ndjson', 'parquet']) {
    for (const most of [FEW, MANY]) {
      it(`as ${format} are whole up to ${most} rows, and fail with one more`, async () => {
        limits.export_rows = most
        assert.deepEqual(await saved(format, most), { failure: null, rows: most })
        const { failure, rows } = await saved(format, most + 1)
        assert.match(failure ?? '', /rows/)
        assert.equal(rows, null, 'what is not whole has not the name of the file')
      })
    }

    it(`as ${format} end where they were asked to`, async () => {
      limits.export_rows = MANY
      assert.deepEqual(await saved(format, MANY, 3), { failure: null, rows: 3 })
      limits.export_rows = FEW
      assert.deepEqual(await saved(format, FEW, MANY), { failure: null, rows: FEW })
      assert.equal((await saved(format, FEW + 1, MANY)).rows, null)
    })
  }

  it('say how long the file is, and how many rows an answer as JSON has told', async () => {
    limits.export_rows = FEW
    for (const [format, told] of [
      ['csv', ''],
      ['ndjson', ''],
      ['parquet', ''],
      ['json', `${FEW - 1} rows, `],
    ] as const) {
      const output = join(folder, `told.${format}`)
      const flags = { words: [], flags: { format, output } }
      const call = callOf(flags, [`SELECT * FROM range(1, ${FEW})`], { environment: {}, flags: {} })
      const said = await QUERY_COMMANDS['query']?.run(call)
      assert.equal(said, `${told}${(await stat(output)).size} bytes: ${output}`)
    }
  })

  it('are not asked for where their file cannot be written', async () => {
    for (const output of ['/proc/rows.csv', folder, join(folder, 'absent/rows.csv'), join(folder, 'a\0b')]) {
      const call = callOf({ words: [], flags: { format: 'csv', output } }, ['SELECT no FROM nowhere'], {
        environment: {},
        flags: { 'data-dir': folder },
      })
      await assert.rejects(async () => QUERY_COMMANDS['query']?.run(call), /cannot be written: /)
    }
  })

  it('as JSON say that they were cut, and the command fails where nobody asked for that', async () => {
    assert.deepEqual(await saved('json', FEW), { failure: null, rows: FEW })
    assert.deepEqual(await saved('json', FEW + 1, FEW), { failure: null, rows: FEW })
    const { failure, rows } = await saved('json', FEW + 1)
    assert.match(failure ?? '', /more rows than the 5/)
    assert.equal(rows, FEW)
  })
})

describe('an export over its limit', () => {
  const ask = (accept: string, rows: number) =>
    server.ask('/api/v1/query', {
      method: 'POST',
      headers: { accept, 'content-type': 'application/json' },
      body: JSON.stringify({ sql: sqlOf(rows) }),
    })

  it('has a status where no byte has left', async () => {
    limits.export_rows = FEW
    for (const accept of ['text/csv', 'application/x-ndjson', 'application/vnd.apache.parquet']) {
      const response = await ask(accept, FEW + 1)
      assert.equal(response.status, 422, accept)
      assert.equal(((await response.json()) as { code: string }).code, 'query_result_too_large')
    }
  })

  /** Resolves with whether the end of the connection said that the answer was whole. */
  const endOf = (version: string): Promise<'whole' | 'reset' | 'unfinished'> =>
    new Promise((resolve) => {
      const body = JSON.stringify({ sql: sqlOf(MANY + 1) })
      const socket = connect(server.port, '127.0.0.1')
      let tail = ''
      socket.on('data', (chunk) => {
        tail = (tail + chunk.toString('latin1')).slice(-64)
      })
      socket.on('error', () => resolve('reset'))
      socket.on('end', () => resolve(version === '1.0' || tail.endsWith('\r\n0\r\n\r\n') ? 'whole' : 'unfinished'))
      socket.write(
        `POST /api/v1/query HTTP/${version}\r\nHost: x\r\nAuthorization: Bearer ${process.env['SLUICE_TOKEN']}\r\n` +
          `Accept: text/csv\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      )
    })

  it('does not look whole on a connection of either version', async () => {
    limits.export_rows = MANY
    assert.notEqual(await endOf('1.1'), 'whole')
    assert.equal(await endOf('1.0'), 'reset')
  })
})
