import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { before, describe, it } from 'node:test'
import { Compile } from 'typebox/schema'
import { parse } from 'yaml'
import { loadConfig } from '../../config.ts'
import { EXAMPLES, type ExampleName, exampleFiles } from '../../manifest/examples.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { ParsedManifests } from '../../manifest/parse-manifests.ts'
import { manifestParser } from '../lint.ts'
import { filesOf } from '../product-draft.ts'
import { contractText, valuesOf } from '../product-export.ts'
import { type ContractChoices, draftOfContract } from './reading.ts'
import { contractOf } from './writing.ts'

type Texts = Readonly<Record<string, string>>

const CHOICES: ContractChoices = { object: null, namespace: null, folderNamespace: null, guess: true }
const FACTS = { version: '1.2.3', isInService: true, url: 'https://sluice.example/api/v1/products/a.b' }

let parseAll: (texts: Texts) => ParsedManifests
let isContract: (value: unknown) => boolean
before(async () => {
  parseAll = await manifestParser(loadConfig({ environment: {}, flags: {} }))
  const schema = JSON.parse(await readFile(new URL('./odcs-3.1.0.schema.fixture.json', import.meta.url), 'utf8'))
  const compiled = Compile(schema)
  isContract = (value) => compiled.Check(value)
})

function parsed(texts: Texts): ManifestSet {
  const found = parseAll(texts)
  if (!found.ok) assert.fail(JSON.stringify(found.problems.slice(0, 5)))
  return found.manifests
}

const example = async (name: ExampleName): Promise<Texts> =>
  Object.fromEntries(
    Object.entries(await exampleFiles(name)).map(([part, bytes]) => [part, Buffer.from(bytes).toString()]),
  )

/** There and back: the contract as text, what came of it, and what was told both ways. */
function roundTrip(texts: Texts) {
  const { contract, lost } = contractOf(valuesOf(texts), FACTS)
  const text = contractText(contract)
  assert.ok(isContract(parse(text)), text)
  const back = draftOfContract(text, CHOICES, parseAll)
  return { text, lost, lostBack: back.lost, manifests: parsed(filesOf(back.draft, null)) }
}

/** Of manifests, what a contract says: all that is not told as lost. */
function agreed({ product, output, quality, serving }: ManifestSet, told: readonly string[]) {
  const isTold = (place: string): boolean => told.some((one) => one.startsWith(place))
  const { access: _, ...rest } = product
  return {
    product: rest,
    columns: output.columns,
    primaryKey: output.primaryKey,
    partitioning: output.partitioning,
    ...(isTold('output.yaml: write_mode') ? {} : { writeMode: output.writeMode }),
    // In no order of theirs, nor of the columns that must each be there.
    checks: quality.checks
      .filter(({ name }) => !told.some((one) => one.includes(`"${name}"`)))
      .map((check) =>
        check.rule.kind === 'not_null'
          ? { ...check, rule: { ...check.rule, columns: check.rule.columns.toSorted() } }
          : check,
      )
      .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    endpoints: serving.endpoints,
  }
}

const WHAT_IS_NOT_SAID = [
  'inputs.yaml: a contract does not say what a product is made of',
  'compute.yaml: a contract does not say how it is made',
]
const TOLD_BACK = [
  'version: give it when you deploy: --version 1.2.3',
  'inputs.yaml: the contract does not say where rows come from: fill in the connection, and the table',
]

describe('a product as a contract', () => {
  it('is one by the standard’s own schema, and comes back as it was, but for what was told', async () => {
    for (const name of Object.keys(EXAMPLES) as ExampleName[]) {
      const texts = await example(name)
      const { lost, lostBack, manifests } = roundTrip(texts)
      assert.deepEqual(agreed(manifests, lost), agreed(parsed(texts), lost), name)
      assert.deepEqual(lostBack, TOLD_BACK, name)
    }
    const { lost } = roundTrip(await example('customers'))
    assert.deepEqual(lost, [
      ...WHAT_IS_NOT_SAID,
      'product.yaml: access: grants are no part of a contract',
      'output.yaml: retention: a contract says what readers get, and not how it is kept',
      'serving.yaml: visualization: dashboards are no part of a contract',
      'quality.yaml: checks[5] "customer_exists": it is about an input, and a contract does not say what the product is made of',
      'quality.yaml: checks[8] "source_columns": it is about an input, and a contract does not say what the product is made of',
    ])
  })

  it('says what readers of contracts look for', async () => {
    const contract = parse(roundTrip(await example('customers')).text)
    assert.deepEqual(
      [contract.apiVersion, contract.kind, contract.id, contract.version, contract.status, contract.domain],
      ['v3.1.0', 'DataContract', 'sales.customer_orders', '1.2.3', 'active', 'sales'],
    )
    assert.deepEqual(contract.slaProperties[0], { property: 'latency', value: 24, unit: 'h' })
    assert.deepEqual(contract.team, {
      name: 'sales-data',
      members: [{ username: 'sales-data@example.com', role: 'owner' }],
    })
    assert.deepEqual(contract.servers, [{ server: 'sluice', type: 'api', location: FACTS.url }])
    const [id, , country] = contract.schema[0].properties
    assert.deepEqual(
      [id.logicalType, id.physicalType, id.primaryKey, id.required, id.classification],
      ['integer', 'long', true, true, 'pii.identifier'],
    )
    const [known] = country.quality
    assert.deepEqual(
      [known.metric, known.arguments.validValues.length, known.mustBeLessOrEqualTo, known.unit],
      ['invalidValues', 4, 1, 'percent'],
    )
  })

  it('comes back whatever it is', () => {
    const random = generator(7)
    for (let round = 0; round < 150; round += 1) {
      const texts = randomProduct(random)
      const { lost, lostBack, manifests } = roundTrip(texts)
      assert.deepEqual(agreed(manifests, lost), agreed(parsed(texts), lost), `${texts['output']}${texts['quality']}`)
      assert.deepEqual(lostBack, TOLD_BACK)
    }
  })
})

const CONTRACT = `
apiVersion: v3.0.2
kind: DataContract
id: 53581432-6c55-4ba2-a65f-72344a91553a
name: Seller Payments!
version: 1.1.0
status: active
domain: Seller Data
dataProduct: payments
price: { priceAmount: 9.95 }
description: { purpose: Views built on top of the seller tables., limitations: Only US sellers }
team:
  - { username: ceastwood, role: Data Scientist }
  - { username: mhopper@example.com, role: Owner, dateIn: "2022-10-01" }
slaProperties:
  - { property: freshness, value: 4, unit: days }
  - { property: retention, value: 3, unit: y }
schema:
  - name: tbl
    physicalName: receivers.tbl_1
    businessName: Core
    quality:
      - { metric: rowCount, mustBeGreaterThan: 99 }
      - { metric: duplicateValues, arguments: { properties: [txn id, seq] }, mustBeLessThan: 10 }
      - { type: sql, query: SELECT 1, mustBe: 1, name: theirs }
    properties:
      - { name: seq, logicalType: integer, primaryKey: true, primaryKeyPosition: 2, required: true }
      - { name: txn id, physicalType: VARCHAR(18), primaryKey: true, primaryKeyPosition: 1, classification: Top Secret }
      - { name: when, logicalType: time, examples: ["10:00"] }
      - { name: amount, physicalType: "NUMERIC(12, 2)", logicalType: number, logicalTypeOptions: { minimum: 0, multipleOf: 5 } }
      - { name: rate, logicalType: number, classification: restricted }
      - { name: email, logicalType: string, unique: true, logicalTypeOptions: { pattern: ".+@.+", maxLength: 9 } }
      - { name: items, logicalType: array, items: { logicalType: string } }
      - name: country
        physicalName: rcvr_cntry
        logicalType: string
        quality:
          - { metric: nullValues, mustBeLessThan: 5, unit: percent, severity: info, dimension: coverage }
          - { metric: invalidValues, arguments: { validValues: [US, null] }, mustBe: 0 }
          - { type: text, description: looks right }
`

describe('a contract as a product', () => {
  it('is valid manifests, and tells each thing that they do not say', () => {
    const { draft, lost } = draftOfContract(CONTRACT, CHOICES, parseAll)
    const { product, inputs, output, quality, compute } = parsed(filesOf(draft, null))
    assert.deepEqual(
      [product.domain, product.name, product.classification, product.owner.email, product.slo.freshnessMs],
      ['seller_data', 'tbl', 'restricted', 'mhopper@example.com', 4 * 86_400_000],
    )
    assert.deepEqual([inputs[0]?.table, output.primaryKey], ['receivers.tbl_1', ['txn_id', 'seq']])
    assert.deepEqual(
      output.columns.map(({ name, type, classification }) => [name, type, classification]),
      [
        ['txn_id', 'string', 'pii.other'],
        ['seq', 'long', 'public'],
        ['when', 'string', 'public'],
        ['amount', 'decimal(12,2)', 'public'],
        ['rate', 'double', 'restricted'],
        ['email', 'string', 'pii.email'],
        ['items', 'json', 'public'],
        ['country', 'string', 'public'],
      ],
    )
    assert.match(compute.transform ?? '', /"txn id" AS "txn_id"[^]*"rcvr_cntry" AS "country"/)
    assert.deepEqual(
      quality.checks.map(({ name, rule, threshold, severity }) => [name, rule.kind, threshold, severity]),
      [
        ['amount_range', 'range', { rows: 0 }, 'error'],
        ['email_pattern', 'matches', { rows: 0 }, 'error'],
        ['email_is_unique', 'unique', { rows: 0 }, 'error'],
        ['country_not_null', 'not_null', { percent: 5 }, 'warn'],
        ['rows_count', 'row_count', { rows: 0 }, 'error'],
        ['rows_unique', 'unique', { rows: 9 }, 'error'],
      ],
    )
    assert.deepEqual(lost.map((one) => one.split(': ')[0]).toSorted(), [
      'dataProduct',
      'description.limitations',
      'domain',
      'id',
      'inputs.yaml',
      'name',
      'price',
      'schema[0].businessName',
      'schema[0].properties[1].classification',
      'schema[0].properties[1].name',
      'schema[0].properties[1].physicalType',
      'schema[0].properties[2].examples',
      'schema[0].properties[2].logicalType',
      'schema[0].properties[3].logicalTypeOptions.multipleOf',
      'schema[0].properties[4].logicalType',
      'schema[0].properties[5].logicalTypeOptions.maxLength',
      'schema[0].properties[6].items',
      'schema[0].properties[6].logicalType',
      'schema[0].properties[7].quality[0].dimension',
      'schema[0].properties[7].quality[0].mustBeLessThan',
      'schema[0].properties[7].quality[0].severity',
      'schema[0].properties[7].quality[1]',
      'schema[0].properties[7].quality[2]',
      'schema[0].quality[2]',
      'slaProperties[1]',
      'team[0]',
      'team[1].dateIn',
      'version',
    ])
  })

  it('leaves out checks and endpoints that manifests refuse, and tells why', () => {
    const refused = CONTRACT.replace(
      '{ name: rate,',
      '{ name: rate, quality: [{ metric: invalidValues, arguments: { pattern: "(?=x)" }, mustBe: 0, name: bad }],',
    ).replace(
      'price:',
      'customProperties: [{ property: sluiceEndpoints, value: [{ type: realtime, config: { key_template: nothing } }] }]\nprice:',
    )
    const { draft, lost } = draftOfContract(refused, CHOICES, parseAll)
    const { quality, serving } = parsed(filesOf(draft, null))
    assert.ok(quality.checks.length === 6 && quality.checks.every(({ name }) => name !== 'bad'))
    assert.deepEqual(
      serving.endpoints.map(({ type }) => type),
      ['lookup', 'analytics', 'realtime'],
    )
    assert.ok(lost.some((one) => /^schema\[0\]\.properties\[4\]\.quality\[0\]: cannot be a check here: /.test(one)))
    assert.ok(lost.some((one) => /^customProperties: sluiceEndpoints: /.test(one)))
  })

  it('says again of each type and format what it said, or tells that it does not', () => {
    const options: readonly object[] = [
      {},
      ...[
        ...'i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 uuid binary'.split(' '),
        'email',
        'uri',
        'yyyy-MM-dd',
      ].map((format) => ({ format })),
      { timezone: true },
      { timezone: false },
    ]
    const logicals = [...'string integer number boolean date timestamp time object array'.split(' '), undefined]
    const physicals = [
      undefined,
      'smallint',
      'tinyint',
      'bigint',
      'json',
      'uuid',
      'decimal(9,2)',
      'varchar(9)',
      'geometry',
    ]
    for (const logicalType of logicals) {
      for (const physicalType of physicals) {
        const properties = options.map((logicalTypeOptions, at) =>
          JSON.parse(JSON.stringify({ name: `c${at}`, logicalType, physicalType, logicalTypeOptions })),
        )
        const schema = [{ name: 'tbl', properties }]
        const contract = {
          apiVersion: 'v3.1.0',
          kind: 'DataContract',
          id: 'x',
          version: '1.0.0',
          status: 'active',
          schema,
        }
        const { draft, lost } = draftOfContract(contractText(contract), CHOICES, parseAll)
        const again = contractOf(valuesOf(filesOf(draft, null)), FACTS).contract as unknown as typeof contract
        for (const [at, was] of properties.entries()) {
          const now = again.schema[0]?.properties.find(({ name }) => name === was.name)
          const place = `schema[0].properties[${at}]`
          const isTold = (...keys: string[]) =>
            keys.some((key) => lost.some((one) => one.startsWith(`${place}.${key}:`)))
          const text = `${JSON.stringify(was)} ${JSON.stringify(now)} ${JSON.stringify(lost)}`
          for (const key of ['format', 'timezone']) {
            const isSame =
              was.logicalTypeOptions[key] === undefined || was.logicalTypeOptions[key] === now.logicalTypeOptions?.[key]
            assert.notEqual(isSame, isTold(`logicalTypeOptions.${key}`), text)
          }
          const isOf = was.logicalType === undefined || was.logicalType === now.logicalType
          assert.ok(isOf || isTold('logicalType', 'physicalType'), text)
        }
      }
    }
  })

  it('is of one object, and of one that is asked for', () => {
    const two = `${CONTRACT}\n  - { name: other, properties: [{ name: a, logicalType: integer }] }\n`
    assert.throws(
      () => draftOfContract(two, CHOICES, parseAll),
      /several objects: name one, as in FILE#tbl; it has tbl, other/,
    )
    const { draft } = draftOfContract(two, { ...CHOICES, object: 'other' }, parseAll)
    assert.deepEqual(
      draft.columns.map(({ name, type }) => [name, type]),
      [['a', 'long']],
    )
    assert.throws(() => draftOfContract(two, { ...CHOICES, object: 'third' }, parseAll), /no object "third"/)
  })

  it('is none of what is no contract', () => {
    for (const text of ['', 'a: [', 'kind: DataContract', 'kind: X\napiVersion: v3.1.0', '- 1', '['.repeat(100_000)]) {
      assert.throws(
        () => draftOfContract(text, CHOICES, parseAll),
        /the contract |the file is no contract/,
        text.slice(0, 30),
      )
    }
    const old = CONTRACT.replace('v3.0.2', 'v2.2.2')
    assert.throws(() => draftOfContract(old, CHOICES, parseAll), /those of v3 are read/)
  })

  it('is valid manifests or refused in words, whatever was done to it', () => {
    const random = generator(99)
    for (let round = 0; round < 250; round += 1) {
      const contract = parse(CONTRACT)
      for (let change = 0; change <= random(4); change += 1) spoil(contract, random)
      const text = contractText(contract)
      try {
        parsed(filesOf(draftOfContract(text, CHOICES, parseAll).draft, null))
      } catch (error) {
        assert.match((error as Error).message, /^(the contract |the file is no contract)/, text)
      }
    }
  })
})

/** The same numbers for the same seed. */
function generator(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const ODD: readonly unknown[] = [
  ...[
    null,
    true,
    0,
    -1,
    1e300,
    '',
    'x',
    'a\'"\n: #',
    [],
    {},
    [null],
    [[1]],
    { a: 1 },
    '\u0000',
    'tenant_id',
    'pii.x',
    'public',
  ],
  ...[{ name: 'a' }, [{ name: '__x' }], 'time', 'integer', 'decimal(99,99)', 'mustBe', '\u202e', 'a'.repeat(5000)],
]

/** Puts something odd in the place of anything. */
function spoil(root: unknown, random: (below: number) => number): void {
  let at = root as Record<string, unknown>
  for (let depth = 0; depth < 8; depth += 1) {
    const keys = Object.keys(at)
    if (keys.length === 0) return
    const key = keys[random(keys.length)] as string
    const inner = at[key]
    if (typeof inner !== 'object' || inner === null || random(3) === 0) {
      at[key] = ODD[random(ODD.length)]
      return
    }
    at = inner as Record<string, unknown>
  }
}

const TYPES = [
  ...['string', 'boolean', 'integer', 'long', 'float', 'double', 'decimal(38,9)', 'decimal(5,5)', 'date', 'timestamp'],
  ...['timestamptz', 'uuid', 'binary', 'json'],
]

function randomProduct(random: (below: number) => number): Texts {
  const pick = <T>(from: readonly T[]): T => from[random(from.length)] as T
  const maybe = (fields: object): object => (random(2) === 0 ? fields : {})
  const columns = Array.from({ length: 1 + random(8) }, (_, n) => ({ name: `c${n}`, type: pick(TYPES) }))
  const schema = columns.map(({ name, type }) => {
    const isKey = random(3) === 0 && !['float', 'double', 'json'].includes(type)
    return {
      name,
      type,
      ...(isKey ? { role: 'identity' } : maybe({ role: pick(['measure', 'dimension', 'attribute']) })),
      ...(isKey ? {} : maybe({ nullable: random(2) === 0 })),
      ...maybe({ classification: pick(['public', 'internal', 'confidential', 'pii.email', 'pii.a.b']) }),
      ...maybe({ description: pick(['plain', 'a: "b"\n# c', '  x ', '~']) }),
    }
  })
  const column = (): string => pick(columns).name
  const two = (): string | readonly string[] =>
    random(2) === 0 ? column() : [...new Set([column(), column(), column()])]
  const kinds: readonly (() => object)[] = [
    () => ({ not_null: two(), ...maybe({ threshold: pick([0, 3, '1%', '0.25 %']) }) }),
    () => ({ unique: two(), ...maybe({ threshold: 2 }) }),
    () => ({ row_count: pick([{ min: 1 }, { max: 5 }, { min: 2, max: 2 }, { min: 0, max: 9 }]) }),
    () => ({ schema: { columns: [column()], exact: false } }),
    () => ({ sql: `SELECT * FROM {{this}} WHERE ${column()} IS NULL`, ...maybe({ threshold: '10%' }) }),
    () => ({ sql: `SELECT * FROM source_rows` }),
    () => ({ anomaly: { metric: 'distinct', column: column(), ...maybe({ sensitivity: 'low' }) } }),
  ]
  const checks = Array.from({ length: random(6) }, (_, n) => ({
    name: `check ${n}`,
    ...pick(kinds)(),
    ...maybe({ severity: pick(['error', 'warn']) }),
    ...maybe({ dimension: pick(['validity', 'completeness', 'accuracy', 'timeliness']) }),
    ...maybe({ weight: pick([0, 1, 2.5]) }),
    ...maybe({ description: 'why: "x"' }),
  }))
  const parts = {
    product: {
      ...{ name: 'orders', namespace: 'sales', archetype: pick(['source_aligned', 'aggregate', 'consumer_aligned']) },
      ...maybe({ description: 'what: it is' }),
      classification: pick(['confidential', 'restricted']),
      ...maybe({ owner: { ...maybe({ team: 'a team' }), ...maybe({ email: 'a@b.test' }) } }),
      ...maybe({ tags: ['a', 'b: c'] }),
      ...maybe({
        slo: { ...maybe({ freshness: pick(['90s', '5m', '24h', '7d']) }), ...maybe({ availability: 99.95 }) },
      }),
    },
    inputs: { inputs: [{ name: 'source_rows', connection: 'db', table: 'public.orders' }] },
    output: {
      schema,
      ...maybe({
        partitioning: columns
          .filter(({ type }) => type === 'date')
          .map(({ name }) => ({ column: name, transform: pick(['day', 'month']) })),
      }),
      ...maybe({ write_mode: 'replace' }),
    },
    quality: { ...maybe({ on_error: pick(['publish', 'quarantine', 'block']) }), checks },
    serving: { endpoints: random(2) === 0 ? [] : [{ type: 'analytics', ...maybe({ description: 'for all' }) }] },
    compute: { ...maybe({ transform: 'SELECT * FROM source_rows' }) },
  }
  const head = (part: string) => ({ apiVersion: 'svc/v1', kind: `${part[0]?.toUpperCase()}${part.slice(1)}` })
  return Object.fromEntries(
    Object.entries(parts).map(([part, fields]) => [part, contractText({ ...head(part), ...fields })]),
  )
}
