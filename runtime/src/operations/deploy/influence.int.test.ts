/** What a column or a row depends on hides it, by whatever way: only what pseudonyms show anyhow is conceded. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import type { Engine, EngineJob } from '@sluice/engine'
import { execute, openDuckDb } from '../../../../engine/src/child/duckdb.ts'
import { inspect } from '../../../../engine/src/child/inspect.ts'
import type { WireInspectOutput } from '../../../../engine/src/protocol.ts'
import type { TenantCall } from '../../flow.ts'
import type { SourceTable } from '../../manifest/context.ts'
import type { Input, ManifestSet, Rule } from '../../manifest/manifest-set.ts'
import { rawColumn } from '../../quality/check-readings.ts'
import { registryOfClasses } from '../../registry/raw-classes.fixture.ts'
import type { DeployDeps } from './deps.ts'
import { judgedColumns } from './judged-columns.ts'

const CALL = { tenant: 'acme', signal: new AbortController().signal } as TenantCall

const TYPES = { id: 'integer', email: 'string', salary: 'integer', city: 'string', note: 'string' } as const
const HIDDEN = { p: { email: 'pii.identifier', salary: 'pay' }, q: { email: 'pii.identifier', salary: 'pay' } } as const

let platform: DeployDeps

before(async () => {
  // What a child does with an inspection, without the child.
  const connection = await openDuckDb()
  for (const table of ['p', 'q']) {
    await execute(
      connection,
      `CREATE TABLE ${table} (id INTEGER, email VARCHAR, salary INTEGER, city VARCHAR, note VARCHAR)`,
    )
  }
  const run = ({ output, tables = [] }: EngineJob) =>
    inspect(connection, { ...output, parameters: [] } as unknown as WireInspectOutput, tables)
  const engine = { run } as unknown as Engine
  const rows = Object.entries(HIDDEN).flatMap(([table, columns]) =>
    Object.entries(columns).map(([column, name]) => ({
      rawColumn: rawColumn({ connection: 'crm', table }, column),
      class: name,
    })),
  )
  const strategies = { 'pii.identifier': 'hash', pay: 'hash' }
  const rules = { sensitive: ['pay'], strategies }
  const lake = { load: async () => null }
  platform = { engine, lake, pool: registryOfClasses(rows), rules } as unknown as DeployDeps
})

/** The output columns that are refused; `classes` are those of the output's columns. */
async function refused(
  transform: string | null,
  classes: Readonly<Record<string, string>>,
  {
    where = null,
    rules = platform.rules,
    aside = [],
    reading = {},
    enforced = [],
  }: {
    readonly where?: string | null
    readonly rules?: DeployDeps['rules']
    readonly aside?: readonly Rule[]
    /** How the first input is read. */
    readonly reading?: Partial<Input>
    /** The key that its source has. */
    readonly enforced?: readonly string[]
  } = {},
): Promise<readonly string[]> {
  const columns = Object.entries(TYPES).map(([name, type]) => ({ name, type, nullable: true }))
  const table = (name: string): SourceTable => ({
    schema: 'public',
    name,
    columns,
    primaryKey: enforced,
    suggestedCursor: 'salary',
  })
  const manifests = {
    inputs: ['p', 'q'].map((name) => ({
      connection: 'crm',
      table: name,
      name,
      where: name === 'p' ? where : null,
      columns: null,
      ...{ mode: 'auto', cursorColumn: null, primaryKey: [] },
      ...(name === 'p' ? reading : {}),
    })),
    output: {
      primaryKey: [],
      columns: Object.entries(classes).map(([name, classification]) => ({
        name,
        type: TYPES[name as keyof typeof TYPES] ?? 'long',
        nullable: true,
        classification,
      })),
    },
    compute: { engine: 'embedded', transform },
    quality: { checks: aside.map((rule) => ({ name: rule.kind, severity: 'error', onError: 'quarantine', rule })) },
  } as unknown as ManifestSet
  const sources = new Map([['crm', [table('p'), table('q')]]])
  return (await judgedColumns({ ...platform, rules }, CALL, manifests, sources)).laundered
}

const OPEN = { id: 'public', city: 'public' }

describe('a row that depends on what is hidden', () => {
  const ways: Readonly<Record<string, string>> = {
    'a join with numbers': 'SELECT p.id, p.city FROM p JOIN range(0, 1000000) r(n) ON r.n = p.salary',
    'a number beside it': 'SELECT r.n AS id, p.city FROM p JOIN range(0, 1000000) r(n) ON r.n = p.salary',
    'a join of its own class, where its mask shows nothing': 'SELECT p.id, p.city FROM p JOIN q ON p.salary = q.salary',
    'a join with another class': 'SELECT p.id, q.city FROM p JOIN q ON p.email = q.city',
    'a join by less': 'SELECT p.id, q.city FROM p JOIN q ON p.email < q.email',
    'a filter': "SELECT id, city FROM p WHERE email LIKE 'a%'",
    'a filter by a constant': "SELECT id, city FROM p WHERE email = 'ada@x'",
    'a filter on whether it is there, where its mask shows nothing': 'SELECT id, city FROM p WHERE salary IS NOT NULL',
    'a member of a list': "SELECT id, city FROM p WHERE email IN ('ada@x')",
    EXISTS: 'SELECT id, city FROM p WHERE EXISTS (FROM q WHERE q.id = p.id AND q.salary > 5)',
    'a semi-join': 'SELECT id, city FROM p SEMI JOIN q USING (salary)',
    'an anti-join': 'SELECT p.id, p.city FROM p ANTI JOIN q ON p.salary < q.salary',
    'an as-of join': 'SELECT p.id, q.city FROM p ASOF JOIN q ON p.salary >= q.salary',
    'a branch of a union': 'SELECT id, city FROM p UNION ALL SELECT id, city FROM q WHERE salary > 5',
    'a difference': 'SELECT id, city FROM p EXCEPT SELECT salary, city FROM q',
    'a limit by order': 'SELECT id, city FROM p ORDER BY salary LIMIT 3',
    'a limit of joined rows': 'SELECT p.id, p.city FROM p JOIN q ON p.email = q.email LIMIT 3',
    'a group': 'SELECT min(id) AS id, min(city) AS city FROM p GROUP BY salary',
    'a group by pseudonyms that are not there': 'SELECT min(id) AS id, min(city) AS city FROM p GROUP BY email',
    'a window': 'SELECT id, city FROM p QUALIFY row_number() OVER (PARTITION BY city ORDER BY salary) = 1',
    'what groups have': 'SELECT id, city FROM p GROUP BY id, city HAVING max(salary) > 5',
    'different ones': 'SELECT id, city FROM (SELECT DISTINCT id, city, salary FROM p)',
    'elements of a list': "SELECT id, city, unnest(string_split(email, '@')) AS part FROM p",
    'a query within': 'SELECT id, city FROM p WHERE salary > (SELECT avg(salary) FROM q)',
    'a recursion':
      'WITH RECURSIVE t(n) AS (SELECT max(salary) FROM p UNION ALL SELECT n - 1 FROM t WHERE n > 0) SELECT n AS id, NULL AS city FROM t',
  }
  for (const [way, transform] of Object.entries(ways)) {
    it(`is hidden: ${way}`, async () => assert.deepEqual(await refused(transform, OPEN), ['id', 'city']))
  }

  it('is hidden where a condition of an input chooses it', async () => {
    const where = (text: string) => refused('SELECT q.id, p.city FROM p, q', OPEN, { where: text })
    assert.deepEqual(await where('salary BETWEEN 1000 AND 2000'), ['id', 'city'])
    assert.deepEqual(await where("email LIKE 'a%'"), ['id', 'city'])
    assert.deepEqual(await where('email IS NOT NULL AND id > 5'), [])
  })

  it('is hidden where a check puts rows aside', async () => {
    const classes = { id: 'public', email: 'pii.identifier', salary: 'pay' }
    const by = (rule: Rule) => refused('SELECT id, email, salary FROM p', classes, { aside: [rule] })
    assert.deepEqual(await by({ kind: 'range', column: 'salary', min: 0, max: 9, exclusive: false }), ['id', 'email'])
    assert.deepEqual(await by({ kind: 'not_null', columns: ['salary'] }), ['id', 'email'])
    assert.deepEqual(await by({ kind: 'unique', columns: ['email'] }), ['id', 'salary'])
    const columns = { columns: ['id'], inputColumns: ['salary'] }
    assert.deepEqual(await by({ kind: 'references', input: 'q', ...columns }), ['id', 'email'])
    assert.deepEqual(await by({ kind: 'not_null', columns: ['email', 'id'] }), [], 'pseudonyms show it')
  })

  it('is counted where every column has its class', async () => {
    const transform = 'SELECT id, salary FROM p WHERE salary > 5'
    assert.deepEqual(await refused(transform, { id: 'pay', salary: 'pay' }), ['id', 'salary'])
    assert.deepEqual(await refused('SELECT id, salary FROM p', { id: 'public', salary: 'pay' }), [])
  })
})

describe('a value that depends on what is hidden', () => {
  const ways: Readonly<Record<string, string>> = {
    'a condition of CASE': 'SELECT id, CASE WHEN salary > 5 THEN city END AS city FROM p',
    'a comparison of two': 'SELECT p.id, CAST(p.email = q.email AS VARCHAR) AS city FROM p JOIN q USING (id)',
    'a number of others': 'SELECT id, (SELECT count(*) FROM q WHERE q.salary = p.salary)::VARCHAR AS city FROM p',
    'whether it is there, where its mask shows nothing': 'SELECT id, (salary IS NULL)::VARCHAR AS city FROM p',
    'another class': 'SELECT id, email AS city FROM p',
  }
  for (const [way, transform] of Object.entries(ways)) {
    it(`is hidden: ${way}`, async () => {
      assert.deepEqual(await refused(transform, { id: 'public', city: 'public' }), ['city'])
      assert.deepEqual(await refused(transform, { id: 'public', city: 'pii.name' }), ['city'], 'by another class')
    })
  }
})

describe('what pseudonyms show anyhow', () => {
  const ways: Readonly<Record<string, readonly [transform: string, classes: Readonly<Record<string, string>>]>> = {
    'who joins whom': ['SELECT p.id, q.city FROM p JOIN q ON p.email = q.email AND q.id > 3', OPEN],
    'who joins nobody': ['SELECT p.id, q.city FROM p LEFT JOIN q ON p.email = q.email WHERE q.email IS NULL', OPEN],
    'who joins by one name': ['SELECT p.id, q.city FROM p JOIN q USING (email)', OPEN],
    'who is among others': ['SELECT id, city FROM p WHERE email IN (SELECT email FROM q)', OPEN],
    'who is in none': ['SELECT id, city FROM p WHERE NOT EXISTS (FROM q WHERE q.email = p.email)', OPEN],
    'who is there': ['SELECT id, (email IS NULL)::VARCHAR AS city FROM p WHERE email IS NOT NULL', OPEN],
    'how many are one': [
      'SELECT email, count(*) AS n, min(p.city) AS city FROM p GROUP BY email',
      { email: 'pii.identifier', n: 'public', city: 'public' },
    ],
    'how many are one, by number': [
      'SELECT email, count(*) AS n FROM p GROUP BY 1',
      { email: 'pii.identifier', n: 'public' },
    ],
    'sums over joins': [
      'SELECT q.city, count(*) AS n FROM p JOIN q ON p.email = q.email GROUP BY q.city',
      { city: 'public', n: 'public' },
    ],
  }
  for (const [way, [transform, classes]] of Object.entries(ways)) {
    it(`is conceded: ${way}`, async () => {
      assert.deepEqual(await refused(transform, classes), [])
      const rules = { sensitive: ['pay'], strategies: { 'pii.identifier': 'redact' } }
      assert.notDeepEqual(await refused(transform, classes, { rules }), [], 'to another mask it is not')
    })
  }

  it('are the classes of a first version, too', async () => {
    const none = { ...platform, pool: { query: async () => ({ rows: [] }) } } as unknown as DeployDeps
    const own = platform
    platform = none
    try {
      const classes = { id: 'public', email: 'pii.identifier' }
      assert.deepEqual(await refused('SELECT id, email FROM p', classes), [])
      assert.deepEqual(await refused("SELECT id, email FROM p WHERE email LIKE 'a%'", classes), ['id'])
    } finally {
      platform = own
    }
  })
})

it('takes no text that ends what is put around it', async () => {
  for (const text of [
    'SELECT id, city FROM p) AS output, (SELECT 1',
    'SELECT 1) --',
    'SELECT id, city FROM p; SELECT 1',
  ]) {
    await assert.rejects(refused(text, OPEN), { code: 'transform_invalid' }, text)
  }
})

describe('a row that is read, or stays of several, by what is hidden', () => {
  const BOTH = ['id', 'city']
  const plain = 'SELECT id, city FROM p'
  const carried = { ...OPEN, email: 'pii.identifier' }

  it('is hidden by the cursor that is named, and by that of a key that the source does not enforce', async () => {
    const cases: readonly (readonly [Partial<Input>, readonly string[], readonly string[]])[] = [
      [{ mode: 'incremental', cursorColumn: 'salary', primaryKey: ['id'] }, ['id'], BOTH],
      [{ cursorColumn: 'salary' }, ['id'], BOTH],
      [{ mode: 'full', cursorColumn: 'salary', primaryKey: ['salary'] }, [], []],
      [{ mode: 'incremental', cursorColumn: 'id', primaryKey: ['city'] }, [], []],
      [{ mode: 'incremental', primaryKey: ['city'] }, [], BOTH],
      [{ mode: 'incremental', primaryKey: ['id', 'city'] }, ['id'], []],
      [{ mode: 'incremental', cursorColumn: 'id', primaryKey: ['salary'] }, [], BOTH],
      [{ mode: 'incremental', cursorColumn: 'id', primaryKey: ['salary'] }, ['salary'], []],
      [{}, [], []],
    ]
    for (const [reading, enforced, expected] of cases) {
      assert.deepEqual(await refused(plain, OPEN, { reading, enforced }), expected, JSON.stringify([reading, enforced]))
    }
  })

  it('is not, where its key is pseudonyms that the product has', async () => {
    const reading = { mode: 'incremental', cursorColumn: 'id', primaryKey: ['email'] } as const
    assert.deepEqual(await refused(plain, OPEN, { reading }), BOTH)
    assert.deepEqual(await refused('SELECT id, city, email FROM p', carried, { reading }), [])
    assert.deepEqual(
      await refused('SELECT id, city, lower(email) AS email FROM p', carried, { reading }),
      BOTH,
      'those are others',
    )
  })
})
