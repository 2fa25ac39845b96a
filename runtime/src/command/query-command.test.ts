/** What is told beside rows that go into a file, or further down a pipe. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { callOf } from './command.ts'
import { QUERY_COMMANDS } from './query-command.ts'

const TOLD: readonly (readonly [header: string | null, told: string])[] = [
  [null, ''],
  ['["full_name","email"]', 'Masked for you: full_name, email.\n'],
  ['1000', 'Masked for you: 1000 columns.\n'],
  // What a terminal would obey.
  ['["a\\u001b[2J"]', 'Masked for you: a·[2J.\n'],
]

for (const format of ['csv', 'ndjson', 'parquet']) {
  it(`names the masked columns of ${format} beside the rows`, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-query-'))
    t.after(() => rm(folder, { recursive: true, force: true }))
    let masked: string | null = null
    const server = createServer((request, response) => {
      response.setHeader('Content-Type', request.headers.accept ?? '')
      if (masked !== null) response.setHeader('Masked-Columns', masked)
      response.end('rows\n')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
    const { port } = server.address() as { readonly port: number }
    const environment = { SLUICE_URL: `http://127.0.0.1:${port}`, SLUICE_TOKEN: 'token' }
    for (const [name, value] of Object.entries(environment)) process.env[name] = value
    t.after(() => {
      for (const name of Object.keys(environment)) delete process.env[name]
    })
    for (const [header, told] of TOLD) {
      masked = header
      const output = join(folder, 'rows')
      const call = callOf({ words: [], flags: { format, output } }, ['SELECT 1'], {
        environment,
        flags: { 'data-dir': folder },
      })
      const written = t.mock.method(process.stderr, 'write', () => true)
      try {
        await QUERY_COMMANDS['query']?.run(call)
        const lines = written.mock.calls.map(({ arguments: [text] }) => String(text))
        assert.equal(lines.filter((line) => line.startsWith('Masked')).join(''), told)
      } finally {
        written.mock.restore()
      }
      assert.equal(await readFile(output, 'utf8'), 'rows\n')
    }
  })
}
