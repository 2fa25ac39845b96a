/** A product that its author makes of columns that hide: by the ways in which a hidden value could reach a shown one. */
import type { Random } from '../../conformance-tests/random.ts'

interface Derived {
  readonly sql: string
  readonly type: string
  /** Of the hidden column that decides; null where none does. */
  readonly hides: string | null
  /** On the rows of the source. */
  readonly where?: string
  readonly checks?: string
}

const REACHED: readonly Derived[] = [
  { sql: 'SELECT id, upper(name) AS shown FROM source', type: 'string', hides: 'pii.name' },
  { sql: 'SELECT id, salary > 5000 AS shown FROM source', type: 'boolean', hides: 'pii.salary' },
  { sql: 'SELECT id, city AS shown FROM source WHERE salary > 5000', type: 'string', hides: 'pii.salary' },
  { sql: 'SELECT id, city AS shown FROM source ORDER BY salary, id LIMIT 5', type: 'string', hides: 'pii.salary' },
  {
    sql: 'SELECT a.id, a.city AS shown FROM source a JOIN range(0, 30) r(x) ON r.x * 1000 = a.salary',
    type: 'string',
    hides: 'pii.salary',
  },
  {
    sql: "SELECT id, CASE WHEN note IS NULL THEN 'a' ELSE 'b' END AS shown FROM source",
    type: 'string',
    hides: 'pii.note',
  },
  {
    sql: 'SELECT id, city AS shown FROM source s WHERE EXISTS (SELECT 1 FROM source q WHERE q.born > s.born)',
    type: 'string',
    hides: 'pii.birth',
  },
  {
    sql: 'SELECT id, city AS shown FROM source UNION ALL SELECT id + 1000, name FROM source',
    type: 'string',
    hides: 'pii.name',
  },
  {
    sql: 'SELECT id, CAST(row_number() OVER (ORDER BY name, id) AS INTEGER) AS shown FROM source',
    type: 'integer',
    hides: 'pii.name',
  },
  {
    sql: 'SELECT CAST(min(id) AS INTEGER) AS id, CAST(count(*) AS INTEGER) AS shown FROM source GROUP BY salary',
    type: 'integer',
    hides: 'pii.salary',
  },
  { sql: 'SELECT id, (SELECT max(salary) FROM source) AS shown FROM source', type: 'integer', hides: 'pii.salary' },
  { sql: 'SELECT id, length(phone) > 14 AS shown FROM source', type: 'boolean', hides: 'pii.phone' },
  { sql: 'SELECT id, n AS shown FROM source', type: 'integer', hides: 'pii.salary', where: 'salary > 5000' },
  { sql: 'SELECT id, n AS shown FROM source WHERE name IS NOT NULL', type: 'integer', hides: 'pii.name' },
  {
    sql: 'SELECT id, salary AS shown FROM source',
    type: 'integer',
    hides: 'pii.salary',
    checks: '  - { name: rich, range: { column: shown, min: 500 }, on_error: quarantine }\n',
  },
  {
    sql: 'SELECT id, salary AS shown FROM source',
    type: 'integer',
    hides: 'pii.salary',
    checks: '  - { name: rich, range: { column: shown, min: 500 }, severity: warn }\n',
  },
  { sql: 'SELECT id, salary + n AS shown FROM source WHERE n > 1', type: 'integer', hides: 'pii.salary' },
  { sql: 'SELECT id, n AS shown FROM source WHERE n > 1', type: 'integer', hides: null },
]

const HEAD = 'apiVersion: svc/v1\nkind: '

/** Of the table or of the product of its rows. Its column is classed as what it shows asks for, or not at all, which a deployment has to refuse. */
export function derivedFiles(random: Random, name: string): Readonly<Record<string, string>> {
  const { sql, type, hides, where, checks } = random.pick(REACHED)
  const from = random.chance(0.4) ? 'product: crm.people' : 'connection: db, table: public.people, mode: full'
  const classification = hides !== null && random.chance(0.7) ? `, classification: ${hides}` : ''
  const chosen = where === undefined ? '' : `, where: "${where}"`
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: shown, type: ${type}${classification} }\n`
  return {
    product: `${HEAD}Product\nname: ${name}\nnamespace: crm\narchetype: aggregate\n`,
    inputs: `${HEAD}Inputs\ninputs:\n  - { name: source, ${from}${chosen} }\n`,
    output: `${HEAD}Output\nformat: iceberg\nschema:\n${columns}write_mode: replace\n`,
    quality: `${HEAD}Quality\nchecks:${checks === undefined ? ' []\n' : `\n${checks}`}`,
    serving: `${HEAD}Serving\nendpoints:\n  - { type: lookup, config: { index_columns: [id] } }\n  - type: analytics\n`,
    compute: `${HEAD}Compute\nengine: auto\ntrigger: on_ingestion\ntransform: ${JSON.stringify(sql)}\n`,
  }
}
