/**
 * A product over the wire and a PostgreSQL with the same rows are asked the same: values, types and names of columns are equal, or
 * there is an error on both sides with the same SQLSTATE. What differs stands in `differences.ts`, by what the guide says of it:
 * anything else that differs fails here, and so does what stands there and differs no longer. How many are equal is told by the run.
 */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { manifests } from '../../acceptance/client.ts'
import { onboardPeople, openWorld, type World } from '../../acceptance/world.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { DIFFERENCES } from './dialect/differences.ts'
import { EXPRESSIONS, FAILING, STATEMENTS } from './dialect/expressions.ts'
import { COLUMNS, LARGEST_ID, ROWS_SQL } from './dialect/rows.ts'

let world: World
let ours: pg.Client
let theirs: pg.Client

before(async () => {
  const port = await freePort()
  Object.assign(process.env, { SLUICE_WIRE__PORT: String(port), SLUICE_LIMITS__QUERY_TIMEOUT_MS: '600000' })
  world = await openWorld()
  const [tenant] = world.tenants
  const columnsOf = (json: string) => COLUMNS.map(([name, , type]) => `${name} ${type === 'json' ? json : type}`).join()
  await world.source.query(
    `CREATE TABLE wired (${columnsOf('jsonb')}, PRIMARY KEY (id)); INSERT INTO wired VALUES ${ROWS_SQL};
     CREATE SCHEMA crm; CREATE TABLE crm.people (${columnsOf('json')}); INSERT INTO crm.people SELECT * FROM wired`,
  )
  await world.createTenant(tenant)
  const owner = await world.as(tenant, 'svc-developers', 'dora')
  const columns = COLUMNS.map(
    ([name, type]) =>
      `  - { name: ${name}, type: ${type}${name === 'id' ? ', role: identity, nullable: false' : ''} }\n`,
  ).join('')
  await onboardPeople(world, owner, manifests('public.wired', { columns, endpoints: '  - type: analytics\n' }))
  const token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-viewers', '--user', 'vera'])
  ours = new pg.Client({ host: '127.0.0.1', port, user: 'vera', database: tenant, password: token })
  const { host, port: sourcePort, user, password, database } = world.deployment.source
  const login = { host, port: Number(sourcePort), user: String(user), password: String(password), database }
  theirs = new pg.Client({ ...login, options: '-c TimeZone=UTC' })
  for (const client of [ours, theirs]) await client.connect()
})

after(async () => {
  for (const client of [ours, theirs]) await client?.end().catch(() => undefined)
  await world?.close()
})

const asText = { getTypeParser: () => (value: unknown) => value } as unknown as pg.CustomTypesConfig

interface Told {
  readonly state: string
  readonly names: readonly string[]
  readonly types: readonly number[]
  readonly rows: readonly (readonly (string | null)[])[]
}

async function told(client: pg.Client, sql: string): Promise<Told> {
  try {
    const { fields, rows } = await client.query({ text: sql, rowMode: 'array', types: asText })
    return {
      state: '',
      names: fields.map(({ name }) => name),
      types: fields.map(({ dataTypeID }) => dataTypeID),
      rows,
    }
  } catch (error) {
    return { state: String((error as pg.DatabaseError).code), names: [], types: [], rows: [] }
  }
}

/** What of it is not the same, in one word for each: nothing where all is. */
function differenceOf(here: Told, there: Told): string {
  if (here.state !== there.state) {
    if (here.state === '') return 'answers'
    return there.state === '' ? `refuses ${here.state}` : `${here.state} for ${there.state}`
  }
  const parts = [
    ...(JSON.stringify(here.rows) === JSON.stringify(there.rows)
      ? []
      : [isOfNoughts(here, there) ? 'noughts' : 'values']),
    ...(String(here.types) === String(there.types) ? [] : [`type ${here.types} for ${there.types}`]),
    ...(JSON.stringify(here.names) === JSON.stringify(there.names) ? [] : ['name']),
  ]
  return parts.join(', ')
}

const NUMERIC = 1700

/** Whether no more than noughts behind the point are others. */
function isOfNoughts(here: Told, there: Told): boolean {
  const bare = ({ rows, types }: Told) =>
    rows.map((row) =>
      row.map((cell, at) => (types[at] === NUMERIC && cell?.includes('.') ? cell.replace(/\.?0+$/, '') : cell)),
    )
  return JSON.stringify(bare(here)) === JSON.stringify(bare(there))
}

const whole = (list: string): string => `SELECT ${list} FROM crm.people WHERE id <> ${LARGEST_ID} ORDER BY id`

/** One column of what was told of several. */
const columnOf = ({ state, names, types, rows }: Told, at: number): Told => ({
  state,
  names: names.slice(at, at + 1),
  types: types.slice(at, at + 1),
  rows: rows.map((row) => row.slice(at, at + 1)),
})

type Pair = readonly [name: string, here: Told, there: Told]

const both = (sql: string): Promise<readonly Told[]> => Promise.all([told(ours, sql), told(theirs, sql)])

/** All of them at once, and one by one where a side refuses any: each in half as many as before. */
async function asked(expressions: readonly string[]): Promise<readonly Pair[]> {
  const [here, there] = (await both(whole(expressions.join(', ')))) as [Told, Told]
  const isTold = here.state === '' && there.state === '' && here.names.length === expressions.length
  if (isTold) return expressions.map((name, at) => [name, columnOf(here, at), columnOf(there, at)])
  if (expressions.length === 1) return [[expressions[0] as string, here, there]]
  const middle = Math.ceil(expressions.length / 2)
  return [...(await asked(expressions.slice(0, middle))), ...(await asked(expressions.slice(middle)))]
}

const TOGETHER = 40

/** What is refused costs a process of the engine each time: asked beside others it would be refused again and again. */
const REFUSED: ReadonlySet<string> = new Set(
  DIFFERENCES.filter(({ how }) => how.startsWith('refuses')).flatMap(({ of }) => of),
)

async function allPairs(): Promise<readonly Pair[]> {
  const pairs: Pair[] = []
  const together = EXPRESSIONS.filter((one) => !REFUSED.has(one))
  for (let at = 0; at < together.length; at += TOGETHER) {
    pairs.push(...(await asked(together.slice(at, at + TOGETHER))))
  }
  for (const name of [...EXPRESSIONS.filter((one) => REFUSED.has(one)), ...FAILING]) {
    pairs.push([name, ...((await both(whole(name))) as [Told, Told])])
  }
  for (const name of STATEMENTS) pairs.push([name, ...((await both(name)) as [Told, Told])])
  return pairs
}

describe('a product over the wire, and a PostgreSQL with the same rows', () => {
  it('differ only where the guide says so', async () => {
    const guide = await readFile(join(import.meta.dirname, '../../docs/guides/postgresql-clients.md'), 'utf8')
    for (const { said } of DIFFERENCES) assert.ok(guide.includes(said), said)
  })

  it('tell the same of what tools and people write, but for what the guide says', async () => {
    const listed = new Map(DIFFERENCES.flatMap(({ how, of }) => of.map((one) => [one, how] as const)))
    const pairs = await allPairs()
    const wrong = pairs.flatMap(([name, here, there]) => {
      const found = differenceOf(here, there)
      if (found === (listed.get(name) ?? '')) return []
      return [JSON.stringify({ name, found, listed: listed.get(name), here: brief(here), there: brief(there) })]
    })
    const equal = pairs.filter(([, here, there]) => differenceOf(here, there) === '').length
    process.stdout.write(`${equal} of ${pairs.length} equal\n`)
    assert.deepEqual(wrong, [], wrong.join('\n'))
  })
})

const brief = ({ state, names, rows }: Told): string =>
  state || `${names.join().slice(0, 60)}: ${JSON.stringify(rows).slice(0, 300)}`
