/**
 * A table that changes its shape under five products, one for each word of a contract, which all read one raw table: by every way of
 * reading that needs no server of its own. What each shows after each change is what an account of rows and words says.
 */
import assert from 'node:assert/strict'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { type SourceCluster, startCluster } from '../plugins/connectors/postgresql/source-server.ts'
import { placeTestCluster } from '../runtime/src/database/testing.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, makeTenant, personOf, registerProduct, servedAt, uploadAndDeploy } from './first-steps.ts'

const WORDS = ['evolve', 'freeze', 'quarantine_row', 'null_value', 'fail'] as const
type Word = (typeof WORDS)[number]

/** Of PostgreSQL, each read by a connection of its name: a run makes no more than is looked at. */
const TABLES = ['whole', 'grown', 'told'] as const

/** How the table differs from the one that the products were deployed over. */
interface Changes {
  /** There is a column x, which the second row alone has a value of. */
  readonly x?: true
  readonly withoutA?: true
  readonly withoutR?: true
  /** The column n is text; `misfit`: and not of numbers alone. */
  readonly text?: 'fits' | 'misfit'
  /** r is null in the third row. */
  readonly nullR?: true
}

interface Row {
  readonly id: number
  readonly a: string | null
  readonly n: string
  readonly r: string | null
  readonly x: string | null
}

const STEPS: readonly Changes[] = [
  { x: true, withoutA: true },
  { text: 'fits' },
  { text: 'misfit', nullR: true },
  { withoutR: true },
  {},
]

function rowsOf(changes: Changes, step: number): readonly Row[] {
  return [1, 2, 3, 4].map((id) => ({
    id,
    a: id === 1 ? null : `a${id} of ${step}`,
    n: changes.text === 'misfit' && id === 4 ? `seven${step}` : String(10 * step + id),
    r: changes.nullR && id === 3 ? null : `r${id}`,
    x: id === 2 ? 'x' : null,
  }))
}

type Shown = readonly (readonly (string | null)[])[]

/** What a product of that word shows: id, a, n, r; null: what it showed before. `aside`: ids of rows that it puts aside. */
function account(
  word: Word,
  {
    isRequired,
    changes,
    rows,
  }: { readonly isRequired: boolean; readonly changes: Changes; readonly rows: readonly Row[] },
): { readonly shown: Shown | null; readonly aside: readonly number[] } {
  const refused = { shown: null, aside: [] }
  const isLost = changes.withoutA === true || changes.withoutR === true
  // Its transform names what is gone.
  if (word === 'evolve' && isLost) return refused
  if (word === 'fail' && (changes.x || isLost || changes.text !== undefined)) return refused
  const mustHaveR = isRequired && word !== 'evolve' && word !== 'null_value'
  if (changes.withoutR && mustHaveR) return refused
  const aside: number[] = []
  const shown: (string | null)[][] = []
  for (const { id, a, n, r, x } of rows) {
    const lacksR = mustHaveR && r === null
    const isOdd = word !== 'evolve' && changes.text !== undefined && !/^[0-9]+$/.test(n)
    if (lacksR && word !== 'quarantine_row') return refused
    if (isOdd && word === 'freeze') return refused
    const isUnknown = changes.x === true && x !== null
    if (word === 'quarantine_row' && (lacksR || isOdd || isUnknown)) aside.push(id)
    else {
      shown.push([
        String(id),
        changes.withoutA ? null : a,
        isOdd && word === 'null_value' ? null : n,
        changes.withoutR ? null : r,
      ])
    }
  }
  return { shown, aside }
}

let folder: string
let data: string
let source: SourceCluster
let runtime: RuntimeProcess
let developer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-contracts-'))
  data = join(folder, 'data')
  await chmod(folder, 0o755)
  await mkdir(join(folder, 'files'))
  source = await startCluster({ wal_level: 'logical', max_replication_slots: '4', max_wal_senders: '8' })
  const { user, database } = source.settings
  await source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user}`)
  for (const table of TABLES) {
    await source.sql(`CREATE TABLE ${table} (id int PRIMARY KEY, at bigint NOT NULL, a text, n integer, r text NOT NULL);
      ALTER TABLE ${table} OWNER TO ${user}`)
  }
  const config = join(folder, 'sluice.yaml')
  await writeFile(
    config,
    `upkeep: { compare_minutes: 0 }\nfolders: { allow: { acme: [${JSON.stringify(join(folder, 'files'))}] } }\npush: { sync_after_ms: 600000 }\n`,
  )
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, config)
  const url = await servedAt(runtime)
  await makeTenant(await adminOf({ url, data }))
  developer = await personOf({ url, data }, 'dora')
  for (const name of TABLES) {
    const { host, port, password } = source.settings
    const config_encrypted = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
    await ok(developer.post('/api/v1/connections', { name, connector_type: 'postgresql', config_encrypted }))
  }
})

after(async () => {
  await runtime?.stop()
  await source?.stop()
  await rm(folder, { recursive: true, force: true })
})

interface Way {
  readonly connection: string
  readonly table: string
  /** Of inputs.yaml. */
  readonly mode: string
  /** Whether the source says that r has values. */
  readonly isRequired: boolean
  readonly steps: readonly Changes[]
  /** Makes the table such that it has these rows in these columns. */
  put(changes: Changes, rows: readonly Row[], step: number): Promise<void>
}

const quoted = (value: string | null) => (value === null ? 'NULL' : `'${value}'`)

function postgresql(table: (typeof TABLES)[number], mode: string): Way {
  let former: Changes = {}
  return {
    ...{ connection: table, table, mode, isRequired: true, steps: STEPS },
    async put(changes, rows, step) {
      const alter = (sql: string) => `ALTER TABLE ${table} ${sql};`
      const when = (is: unknown, was: unknown, come: string, go: string) =>
        Boolean(is) === Boolean(was) ? '' : is ? come : go
      const names = [
        ...(changes.withoutA ? [] : ['a' as const]),
        ...(changes.withoutR ? [] : ['r' as const]),
        ...(changes.x ? ['x' as const] : []),
      ]
      const known = (row: Row) => [...names.map((name) => quoted(row[name])), changes.text ? quoted(row.n) : row.n]
      await source.sql(`BEGIN; TRUNCATE ${table};
        ${when(changes.x, former.x, alter('ADD COLUMN x text'), alter('DROP COLUMN x'))}
        ${when(changes.withoutA, former.withoutA, alter('DROP COLUMN a'), alter('ADD COLUMN a text'))}
        ${when(changes.withoutR, former.withoutR, alter('DROP COLUMN r'), alter('ADD COLUMN r text NOT NULL'))}
        ${when(changes.text, former.text, alter('ALTER COLUMN n TYPE text'), alter('ALTER COLUMN n TYPE integer USING n::integer'))}
        ${changes.withoutR ? '' : alter(`ALTER COLUMN r ${changes.nullR ? 'DROP' : 'SET'} NOT NULL`)}
        INSERT INTO ${table} (id, at, ${[...names, 'n'].join(', ')})
        VALUES ${rows.map((row) => `(${row.id}, ${1000 * step + row.id}, ${known(row).join(', ')})`).join(', ')};
        COMMIT`)
      former = changes
    },
  }
}

const files: Way = {
  ...{ connection: 'files', table: 'files.people', mode: 'full', isRequired: false },
  // Which types columns have is found out by their values: numbers are no text there.
  steps: STEPS.filter(({ text }) => text !== 'fits'),
  async put(changes, rows) {
    const names = ['id', 'a', 'n', 'r', 'x'] as const
    const there = names.filter((name) =>
      name === 'x' ? changes.x : name === 'a' ? !changes.withoutA : name === 'r' ? !changes.withoutR : true,
    )
    const lines = rows.map((row) => there.map((name) => row[name] ?? '').join(','))
    await writeFile(join(folder, 'files', 'people.csv'), `${[there.join(','), ...lines].join('\n')}\n`, { mode: 0o644 })
  },
}

const pushed: Way = {
  ...{ connection: 'push', table: 'people', mode: 'cdc', isRequired: false },
  // Its columns stay as they are described: others are added at the end.
  steps: [{ x: true }, { x: true, nullR: true }],
  async put(changes, rows) {
    const columns = [
      { name: 'id', type: 'long' },
      { name: 'a', type: 'string' },
      { name: 'n', type: 'long' },
      { name: 'r', type: 'string' },
      ...(changes.x ? [{ name: 'x', type: 'string' }] : []),
    ]
    const config = JSON.stringify({ tables: { people: { columns, primary_key: ['id'] } } })
    const { status } = await developer.get('/api/v1/connections/push')
    if (status === 404) {
      await ok(
        developer.post('/api/v1/connections', { name: 'push', connector_type: 'push', config_encrypted: config }),
      )
    } else {
      const headers = { 'content-type': 'application/json' }
      const change = { method: 'PATCH', headers, body: JSON.stringify({ config_encrypted: config }) }
      await ok(developer.send('/api/v1/connections/push', change))
    }
    const events = rows.map((row) => ({
      ...Object.fromEntries(columns.map(({ name }) => [name, row[name as keyof Row]])),
      n: Number(row.n),
    }))
    await ok(developer.post('/api/v1/connections/push/events?table=people', events))
  },
}

const WAYS: Readonly<Record<string, Way>> = {
  'a table of PostgreSQL, in full': postgresql('whole', 'full'),
  'a table of PostgreSQL, by a cursor': postgresql('grown', 'incremental, cursor_column: at'),
  'a table of PostgreSQL, by its log': postgresql('told', 'cdc'),
  'files that say no types': files,
  'rows that are pushed': pushed,
}

const COLUMNS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: a, type: string }
  - { name: n, type: string }
  - { name: r, type: string }
`

/** The short form where there is one. */
function contractOf(word: Word): string {
  if (word !== 'quarantine_row' && word !== 'null_value') return `on_schema_change: ${word}`
  const nullability = word === 'null_value' ? 'evolve' : word
  return `schema_contract: { columns: ${word}, types: ${word}, nullability: ${nullability} }`
}

async function deploy(way: Way, name: string, word: Word): Promise<void> {
  const texts = manifests(way.table, { columns: COLUMNS, endpoints: '  - type: analytics\n' })
  await registerProduct(developer, name)
  const input = `{ name: source, connection: ${way.connection}, table: ${way.table}, mode: ${way.mode}, ${contractOf(word)} }`
  await uploadAndDeploy(developer, name, {
    ...texts,
    product: texts.product.replace('name: people', `name: ${name}`),
    inputs: texts.inputs.replace(/\{.*\}/, input),
    compute: `${texts.compute}transform: SELECT id, a, CAST(n AS VARCHAR) AS n, r FROM source\n`,
  })
}

async function shown(name: string): Promise<Shown> {
  const { rows } = await ok(developer.post('/api/v1/query', { sql: `SELECT id, a, n, r FROM crm.${name} ORDER BY id` }))
  return rows.map((row: Json) => row.map((value: unknown) => (value === null ? null : String(value))))
}

async function sync(connection: string): Promise<Json> {
  const { id } = await ok(developer.post(`/api/v1/connections/${connection}/sync`))
  return developer.untilEnded(id)
}

for (const [what, way] of Object.entries(WAYS)) {
  describe(what, () => {
    const nameOf = (word: Word) => `${way.table.replace(/\W/g, '_')}_${way.connection}_${word}`

    it('is given to each of its products as its own contract says', { timeout: 900_000 }, async () => {
      if (way.connection === 'files') {
        const config_encrypted = JSON.stringify({
          folder: join(folder, 'files'),
          tables: { people: { glob: 'people.csv', format: 'csv', primary_key: ['id'] } },
        })
        await ok(developer.post('/api/v1/connections', { name: 'files', connector_type: 'files', config_encrypted }))
      }
      const first = rowsOf({}, 0)
      await way.put({}, first, 0)
      for (const word of WORDS) await deploy(way, nameOf(word), word)
      const begun = await sync(way.connection)
      assert.equal(begun.state, 'succeeded', JSON.stringify(begun))
      const last = new Map<Word, Shown>()
      for (const word of WORDS) {
        const { shown: expected } = account(word, { ...way, changes: {}, rows: first })
        assert.deepEqual(await shown(nameOf(word)), expected, word)
        last.set(word, expected as Shown)
      }
      for (const [index, changes] of way.steps.entries()) {
        const rows = rowsOf(changes, index + 1)
        await way.put(changes, rows, index + 1)
        const run = await sync(way.connection)
        const when = `${JSON.stringify(changes)}, step ${index}`
        const aside: number[] = []
        for (const word of WORDS) {
          const expected = account(word, { ...way, changes, rows })
          const { reason } = run.products.find((one: Json) => one.name === `crm.${nameOf(word)}`)
          const said = `${when}, ${word}: ${JSON.stringify(reason)}`
          assert.equal(reason === null, expected.shown !== null, said)
          if (reason !== null) {
            assert.equal(reason.code, word === 'evolve' ? 'source_column_gone' : 'source_schema_changed', said)
          }
          last.set(word, expected.shown ?? (last.get(word) as Shown))
          assert.deepEqual(await shown(nameOf(word)), last.get(word), said)
          aside.push(...expected.aside)
        }
        assert.equal(
          run.state,
          run.products.some(({ state }: Json) => state === 'failed') ? 'failed' : 'succeeded',
          when,
        )
        const { data: kept } = await ok(developer.get(`/api/v1/connections/${way.connection}/quarantine`))
        const own = kept.filter(({ table }: Json) => table.endsWith(way.table))
        const isFresh = account('quarantine_row', { ...way, changes, rows }).shown !== null
        if (isFresh) {
          assert.deepEqual(own.map(({ raw }: Json) => Number(JSON.parse(raw).id)).toSorted(), aside, when)
          assert.ok(
            own.every((one: Json) => !one.replayable && one.not_replayable_reason.includes(nameOf('quarantine_row'))),
          )
        }
        if (changes.x && !changes.text && !changes.nullR) {
          const log = JSON.stringify(run.log)
          assert.match(log, new RegExp(`${nameOf('freeze')}: the input .*held to its contract: new: x`), when)
        }
      }
    })
  })
}
