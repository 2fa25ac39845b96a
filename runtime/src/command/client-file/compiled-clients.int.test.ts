/** Generated files as the compilers of their languages take them, whatever products and columns are called. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe as group, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { describe, fullName } from '../../operations/products/product-schema.ts'
import { column, hostileProducts, key, product, TYPES } from '../../operations/products/products.fixture.ts'
import { readingsOf } from '../../operations/products/readings.ts'
import { pythonClient } from './python-client.ts'
import { scriptClient } from './script-client.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const COMPILER = join(ROOT, 'node_modules/typescript/bin/tsc')
const HOSTILE = hostileProducts(40).map(describe)

const PLAIN = describe(
  product(
    'crm.people',
    [
      key('id', 'long'),
      ...TYPES.map((type) => column(type.replace(/\W.*/, ''), type)),
      column('email', 'string', { mask: 'redact', classification: 'pii.email' }),
      column('hidden', 'string', { mask: 'omit', classification: 'pii.secret' }),
    ],
    [
      { type: 'lookup', config: { index_columns: ['id', 'integer', 'email'], history_mode: 'current' } },
      { type: 'realtime', config: { key_template: 'p:{id}', include_columns: ['id', 'string'] } },
      { type: 'timeseries', config: { continuous_aggregates: [{ interval: '1 week', columns: ['integer'] }] } },
    ],
  ),
)

/** Each line compiles; those behind a comment that expects an error do not, or the comment itself is one. */
const USE = `import { type Decimal, type Json, type Long, Sluice, SluiceError } from './plain.ts'
const { lookup, realtime, timeseries, changes, table } = new Sluice({ url: 'http://x', token: () => 't' }).products['crm.people']
export async function use(signal: AbortSignal): Promise<void> {
  const row = await lookup.get({ id: 7n }, { signal })
  const id: Long | undefined = row?.id
  const amount: Decimal | null | undefined = row?.decimal
  const redacted: string | undefined = row?.email
  const document: Json | undefined = row?.json
  const [some] = await lookup.getMany([7, '9007199254740993'], { columns: ['string', 'date'] })
  const word: string | null | undefined = some?.string
  for await (const found of lookup.find({ filter: { id: { ge: 1, in: [1, 2] }, integer: 3 }, order: ['id', ['integer', 'desc']] })) found.boolean
  for await (const { string } of realtimes()) string
  for await (const { timestamptz } of timeseries.range({ from: '2026-01-01', columns: ['timestamptz'], order: 'desc' })) timestamptz
  for await (const line of timeseries.aggregates('1 week')) line['bucket']
  for await (const change of changes.follow({ from: 'start', signal })) if (change.kind === 'delete') change.key.id
  for await (const { uuid } of table.scan({ columns: ['uuid'] })) uuid
  const error = new SluiceError(404, {}, null)
  console.log(id, amount, redacted, document, word, error.code, error.remedy, error.retryAfterMs)
  // @ts-expect-error it is not shown
  row?.hidden
  // @ts-expect-error it was not asked for
  some?.integer
  // @ts-expect-error it is masked
  lookup.find({ filter: { email: 'x' } })
  // @ts-expect-error it has no index
  lookup.find({ filter: { string: 'x' } })
  // @ts-expect-error states of the past are not kept
  lookup.find({ history: true })
  // @ts-expect-error there is no such column
  lookup.get(7, { columns: ['nothing'] })
  // @ts-expect-error a key has all of its columns
  lookup.get({})
  // @ts-expect-error of the realtime endpoint a key is an object
  realtime.get(7)
  // @ts-expect-error no aggregate of that interval is kept
  timeseries.aggregates('1 day')
}
async function* realtimes() {
  for (const row of await realtime.getMany([{ id: 1 }])) if (row !== null) yield row
}
`

let folder = ''

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-clients-'))
  await writeFile(join(folder, 'package.json'), '{"type": "module"}')
  for (const [name, products] of Object.entries({ hostile: HOSTILE, plain: [PLAIN], none: [] })) {
    await writeFile(join(folder, `${name}.ts`), scriptClient(products))
    await writeFile(join(folder, `${name}.py`), pythonClient(products))
  }
  await writeFile(join(folder, 'use.ts'), USE)
})

after(() => rm(folder, { recursive: true, force: true }))

function run(program: string, words: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    execFile(program, words, { cwd: folder, maxBuffer: 16 << 20 }, (error, out, err) =>
      resolve(error === null ? out.trim() : `${out}${err}${error.code ?? error.message}`),
    )
  })
}

const files = ['hostile.ts', 'plain.ts', 'none.ts', 'use.ts']
const strict = [
  '--noEmit',
  '--strict',
  '--noUnusedLocals',
  '--exactOptionalPropertyTypes',
  '--noUncheckedIndexedAccess',
]
const erasable = [
  '--erasableSyntaxOnly',
  '--verbatimModuleSyntax',
  '--noImplicitOverride',
  '--allowImportingTsExtensions',
]

group('a client in TypeScript', () => {
  it('passes the strict compiler, and holds its users to what the product has, in a browser', async () => {
    const words = [...strict, ...erasable, '--module', 'esnext', '--moduleResolution', 'bundler']
    const browser = ['--lib', 'es2022,dom', '--target', 'es2022', '--types', '']
    assert.equal(await run(process.execPath, [COMPILER, ...words, ...browser, ...files]), '')
  })

  it('passes it with the types of Node alone, too', async () => {
    const node = ['--lib', 'es2022', '--types', 'node', '--typeRoots', join(ROOT, 'node_modules/@types')]
    const words = [...strict, '--module', 'nodenext', '--allowImportingTsExtensions', '--skipLibCheck', ...node]
    assert.equal(await run(process.execPath, [COMPILER, ...words, ...files]), '')
  })

  it('runs as it is, and has each product and column under its own name', async () => {
    const { Sluice } = (await import(pathToFileURL(join(folder, 'hostile.ts')).href)) as {
      readonly Sluice: new (options: unknown) => { readonly products: Readonly<Record<string, object>> }
    }
    const { products } = new Sluice({ url: 'http://127.0.0.1:1', token: 't' })
    assert.deepEqual(Object.keys(products).toSorted(), HOSTILE.map(({ schema }) => fullName(schema)).toSorted())
    for (const { schema } of HOSTILE) {
      const readings = readingsOf(schema)
      const ways = (['lookup', 'realtime', 'timeseries', 'changes'] as const).filter((way) => readings[way] !== null)
      const own = products[fullName(schema)] as object
      assert.deepEqual(Object.keys(own).toSorted(), [...ways, 'table'].toSorted(), fullName(schema))
    }
  })
})

/** What the file says of rows, read by Python itself. */
const TOLD = `
import json, sys
import hostile
def told(name):
    part = type(hostile.Sluice("http://127.0.0.1:1", "t").products[name])
    table = hostile.Sluice("http://127.0.0.1:1", "t").products[name].table
    return list(table._columns)
names = list(hostile.Sluice("http://127.0.0.1:1", "t").products)
print(json.dumps([[name, told(name)] for name in names]))
`

group('a client in Python', async () => {
  const version = await new Promise<string | null>((resolve) => {
    execFile('python3', ['--version'], (error, out) => resolve(error === null ? out.trim() : null))
  })
  const skip = version === null ? 'there is no python3 here' : false

  it('compiles', { skip }, async () => {
    for (const name of ['hostile.py', 'plain.py', 'none.py']) {
      assert.equal(await run('python3', ['-W', 'error', '-m', 'py_compile', name]), '', name)
    }
  })

  it('runs as it is, and has each product and column under its own name', { skip }, async () => {
    await writeFile(join(folder, 'told.py'), TOLD)
    const told: unknown = JSON.parse(await run('python3', ['told.py']))
    const expected = HOSTILE.map(({ schema }) => [fullName(schema), readingsOf(schema).row.map(({ name }) => name)])
    const sorted = (pairs: unknown) => (pairs as [string, unknown][]).toSorted(([a], [b]) => (a < b ? -1 : 1))
    assert.deepEqual(sorted(told), sorted(expected))
  })
})
