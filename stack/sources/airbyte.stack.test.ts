/** A connector from PyPI behind the walls: what it brings is what it brings without them, whole and after a position. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmod, cp, mkdtemp, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { promisify } from 'node:util'
import { Bench, PYTHON, readAll, remove } from './airbyte-bench.fixture.ts'

const run = promisify(execFile)
const installed = process.env['SLUICE_TEST_AIRBYTE_DIR'] ?? ''
const CONFIG = { count: 40, seed: 7, parallelism: 1, always_updated: false, records_per_slice: 10 }
/** Of an operator: pages of a list, with a token. */
const MANIFEST = `
version: 6.0.0
type: DeclarativeSource
check: { type: CheckStream, stream_names: [orders] }
streams:
  - type: DeclarativeStream
    name: orders
    primary_key: [id]
    retriever:
      type: SimpleRetriever
      requester:
        type: HttpRequester
        url_base: "{{ config['url'] }}"
        path: /orders
        http_method: GET
        authenticator: { type: BearerAuthenticator, api_token: "{{ config['token'] }}" }
      record_selector: { type: RecordSelector, extractor: { type: DpathExtractor, field_path: [] } }
      paginator:
        type: DefaultPaginator
        page_token_option: { type: RequestOption, inject_into: request_parameter, field_name: page }
        pagination_strategy: { type: PageIncrement, page_size: 10, start_from_page: 0, inject_on_first_request: true }
    schema_loader:
      type: InlineSchemaLoader
      schema: { type: object, properties: { id: { type: integer }, total: { type: number } } }
spec:
  type: Spec
  connection_specification: { type: object, required: [url, token], properties: { url: { type: string }, token: { type: string, airbyte_secret: true } } }
`
let folder: string
let bench: Bench

before(async () => {
  assert(installed, 'the server airbyte of the suite is not there')
  folder = await mkdtemp(join(tmpdir(), 'sluice-airbyte-'))
  await chmod(folder, 0o755)
  // The cache lies in somebody's home, which the program's own user may not enter.
  await run('cp', ['-r', '--no-preserve=mode', join(installed, 'lib'), join(folder, 'lib')])
  await cp(join(installed, 'bin', 'source-faker'), join(folder, 'source-faker'))
  await run(PYTHON, ['-m', 'venv', '--without-pip', join(folder, 'run')])
  await run('bash', ['-c', `rm -rf run/lib && mv lib run/lib && chmod -R a+rX .`], { cwd: folder })
  const command = [join(folder, 'run/bin/python'), join(folder, 'source-faker')]
  await cp(join(installed, 'bin', 'source-declarative-manifest'), join(folder, 'declarative'))
  const manifest = join(folder, 'shop.yaml')
  await writeFile(manifest, MANIFEST)
  await run('chmod', ['-R', 'a+rX', folder])
  const declarative = [join(folder, 'run/bin/python'), join(folder, 'declarative')]
  const rest = { folders: [folder], memory_mb: 1024 }
  bench = new Bench({
    faker: { command, arguments: [], ...rest },
    shop: { command: declarative, arguments: ['--manifest-path', manifest], ...rest },
  })
})

after(async () => {
  await bench?.close()
  if (folder) await remove(folder)
})

it('source-faker is checked, lists its tables, and is read whole and by what is new', async () => {
  const { signal } = new AbortController()
  const connector = await bench.open('faker', CONFIG)
  try {
    const report = await connector.check(signal)
    assert(report.ok, JSON.stringify(report))
    const { tables } = await connector.discover({ after: null, limit: 100 }, signal)
    assert.deepEqual(
      tables.map(({ name, primaryKey, suggestedCursor }) => [name, primaryKey, suggestedCursor]),
      ['products', 'purchases', 'users'].map((name) => [name, ['id'], 'updated_at']),
    )
    const columns = ['id', 'email', 'age']
    const read = await readAll(connector, 'users', { columns })
    assert.deepEqual(read.rejects, [])
    assert.deepEqual(read.lines.toSorted(), await withoutWalls(columns))
    const incremental = {
      columns: [...columns, 'updated_at'],
      mode: 'incremental',
      primaryKey: ['id'],
      cursorColumn: 'updated_at',
    } as const
    const first = await readAll(connector, 'users', incremental)
    assert.equal(first.lines.length, CONFIG.count)
    const second = await readAll(connector, 'users', { ...incremental, state: first.state.state })
    assert.deepEqual(second.lines, [])
    assert.deepEqual(second.state.state, first.state.state)
  } finally {
    await connector.close()
  }
})

it('a manifest of the operator reads pages of an API that wants a token and is busy at times, through the gate alone', async () => {
  const asked = new Set<string>()
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://api')
    const page = Number(searchParams.get('page'))
    const isAllowed = request.headers.authorization === 'Bearer t0ken' && pathname === '/orders'
    const isBusy = isAllowed && page === 1 && !asked.has('1')
    if (isAllowed) asked.add(String(page))
    const rows = Array.from({ length: page < 2 ? 10 : page === 2 ? 3 : 0 }, (_, index) => page * 10 + index)
    response.writeHead(isAllowed ? (isBusy ? 429 : 200) : 401, {
      'content-type': 'application/json',
      'retry-after': '1',
    })
    response.end(JSON.stringify(rows.map((id) => ({ id, total: id / 10 }))))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const connector = await bench.open('shop', { url: `http://127.0.0.1:${port}`, token: 't0ken' })
  // No connection may go there, whoever asks.
  const refused = await bench.open('shop', { url: 'http://169.254.169.254', token: 't0ken' })
  try {
    const { lines } = await readAll(connector, 'orders')
    assert.deepEqual(
      lines.map((line) => line.replaceAll('"', '')).sort(),
      Array.from({ length: 23 }, (_, id) => `${id},${id / 10}`).sort(),
    )
    const report = await refused.check(new AbortController().signal)
    assert(!report.ok && !JSON.stringify(report).includes('t0ken'), JSON.stringify(report))
  } finally {
    await connector.close()
    await refused.close()
    server.close()
  }
})

/** As rows of the shared CSV. */
async function withoutWalls(columns: readonly string[]): Promise<readonly string[]> {
  const [config, catalog] = [join(folder, 'config.json'), join(folder, 'catalog.json')]
  await writeFile(config, JSON.stringify(CONFIG))
  const stream = { name: 'users', json_schema: {}, supported_sync_modes: ['full_refresh'] }
  const configured = { stream, sync_mode: 'full_refresh', destination_sync_mode: 'overwrite' }
  await writeFile(catalog, JSON.stringify({ streams: [configured] }))
  const words = [join(folder, 'source-faker'), 'read', '--config', config, '--catalog', catalog]
  const { stdout } = await run(join(folder, 'run/bin/python'), words, { maxBuffer: 64 * 1024 * 1024 })
  return stdout
    .split('\n')
    .filter((line) => line.includes('"RECORD"'))
    .map((line) => JSON.parse(line).record.data)
    .map((row) => columns.map((name) => `"${row[name]}"`).join(','))
    .sort()
}
