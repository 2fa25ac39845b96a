import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { loadConfig } from '../config.ts'
import type { ParsedManifests } from '../manifest/parse-manifests.ts'
import { draftOfProduct, type ServedProduct } from './copied-product.ts'
import { manifestParser } from './lint.ts'
import { filesOf, type ProductDraft } from './product-draft.ts'
import { nameFrom, namesOfFolder } from './product-names.ts'
import { type DiscoveredTable, draftOfTable } from './table-draft.ts'

type Column = DiscoveredTable['columns'][number]

const STORES = ['lookup', 'timeseries', 'analytics', 'realtime'].map((type) => ({ type, refuses: new Set<string>() }))
const CHOICES = { name: null, namespace: null, stores: STORES, guess: true }

const column = (name: string, type: string, nullable = true): Column => ({ name, type, source_type: type, nullable })
const table = (columns: readonly Column[], other: Partial<DiscoveredTable> = {}): DiscoveredTable => ({
  schema: 'public',
  name: 'orders',
  kind: 'table',
  primary_key: [],
  suggested_cursor: null,
  ...other,
  columns,
})

let parseAll: (texts: Readonly<Record<string, string>>) => ParsedManifests
before(async () => {
  parseAll = await manifestParser(loadConfig({ environment: {}, flags: {} }))
})

/** As `product lint` sees them; throws with its problems. */
function linted(draft: ProductDraft) {
  const files = filesOf(draft, (part) => `http://127.0.0.1/${part}`)
  const parsed = parseAll(files)
  if (!parsed.ok) assert.fail(`${JSON.stringify(parsed.problems.slice(0, 3))}\n${files.output.slice(0, 2000)}`)
  return { files, manifests: parsed.manifests, warnings: parsed.warnings }
}

describe('manifests of a table', () => {
  it('are of the product that the folder says, and read the table by its own name', () => {
    const source = table([column('id', 'long', false), column('total', 'long')], { primary_key: ['id'] })
    for (const [name, alias] of [
      ['revenue', 'orders'],
      ['this', 'orders'],
      [null, 'orders'],
    ] as const) {
      const { manifests } = linted(draftOfTable('shop', source, { ...CHOICES, name }).draft)
      assert.deepEqual([manifests.product.name, manifests.inputs[0]?.name], [name ?? 'orders', alias])
    }
  })

  it('have its columns, key, time and checks, and the endpoints that they allow', () => {
    const { draft } = draftOfTable(
      'shop',
      table(
        [
          column('amount', 'decimal(10,2)', false),
          column('placed_at', 'timestamptz', false),
          column('id', 'long', false),
          column('status', 'string'),
          column('customer_email', 'string'),
        ],
        { primary_key: ['id'], suggested_cursor: 'placed_at' },
      ),
      CHOICES,
    )
    const { files, manifests, warnings } = linted(draft)
    assert.deepEqual(warnings, [])
    const { product, inputs, output, quality, serving } = manifests
    assert.deepEqual([product.domain, product.name, product.archetype], ['core', 'orders', 'source_aligned'])
    assert.deepEqual([inputs[0]?.connection, inputs[0]?.table, inputs[0]?.mode], ['shop', 'public.orders', 'auto'])
    assert.deepEqual(
      output.columns.map(({ name, role, nullable, classification }) => [name, role, nullable, classification]),
      [
        ['id', 'identity', false, 'public'],
        ['amount', 'measure', false, 'public'],
        ['placed_at', 'time', false, 'public'],
        ['status', 'dimension', true, 'public'],
        ['customer_email', 'attribute', true, 'pii.email'],
      ],
    )
    assert.deepEqual(
      quality.checks.map(({ rule }) => rule.kind),
      ['not_null', 'unique'],
    )
    assert.deepEqual(
      serving.endpoints.map(({ type, config }) => [type, config['key_template'] ?? config['time_column'] ?? null]),
      [
        ['lookup', null],
        ['timeseries', 'placed_at'],
        ['analytics', null],
        ['realtime', 'orders:{id}'],
      ],
    )
    assert.match(files.output, /customer_email.*classification: pii\.email \} # guessed by its name: email\n/)
    assert.match(files.output, /^# yaml-language-server: \$schema=http:\/\/127\.0\.0\.1\/output\n/)
    assert.match(files.inputs, /# Read incrementally by placed_at/)
  })

  it('guess nothing where that is not wanted, and serve from the stores that there are', () => {
    const source = table([column('id', 'long', false), column('email', 'string')], { primary_key: ['id'] })
    const plain = linted(draftOfTable('shop', source, { ...CHOICES, guess: false }).draft)
    assert.doesNotMatch(plain.files.output, /pii|guessed/)
    const stores = [
      { type: 'lookup', refuses: new Set(['string']) },
      ...STORES.filter(({ type }) => type === 'analytics'),
    ]
    const few = linted(draftOfTable('shop', source, { ...CHOICES, stores }).draft)
    assert.deepEqual(
      few.manifests.serving.endpoints.map(({ type }) => type),
      ['analytics'],
    )
    assert.match(few.files.serving, /# lookup cannot hold email, which is of type string/)
  })

  it('take the class that products give to a column already, whatever would be guessed, and say so', () => {
    const known = (name: string, ...classes: string[]) => ({ ...column(name, 'string', name !== 'code'), classes })
    const columns = [
      known('code', 'pii.employee'),
      known('email', 'pii.identifier'),
      known('phone', 'pii.contact', 'pii.phone'),
      known('note', 'secret.b', 'secret.a'),
      known('customer_email'),
      known('city'),
    ]
    const said = 'its class in products that are made of it already'
    const several = (names: string) => `products that are made of it already have it as ${names}`
    const TOLD = {
      code: ['pii.employee', said],
      email: ['pii.identifier', said],
      phone: ['pii.phone', several('pii.contact, pii.phone')],
      note: ['secret.b', several('secret.b, secret.a')],
      customer_email: ['pii.email', 'guessed by its name: email'],
      city: [undefined, undefined],
    }
    const classesOf = (guess: boolean) => {
      const { draft } = draftOfTable('shop', table(columns, { primary_key: ['code'] }), { ...CHOICES, guess })
      return Object.fromEntries(
        draft.columns.map(({ name, classification, comment }) => [name, [classification, comment]]),
      )
    }
    assert.deepEqual(classesOf(true), TOLD)
    const unguessed = { phone: ['pii.contact', TOLD.phone[1]], customer_email: [undefined, undefined] }
    assert.deepEqual(classesOf(false), { ...TOLD, ...unguessed })
  })

  it('rename what has no name that a product may have, and leave out what cannot come along, with the reason', () => {
    const source = table(
      [
        column('tenant_id', 'integer', false),
        column('Full "Name"\n# x: [', 'string'),
        column('__deleted', 'boolean'),
        column('full_name', 'string'),
        column('shape', 'geometry'),
        column('Größe (cm)', 'double'),
      ],
      { primary_key: ['tenant_id'], name: 'raw_2024 Bestellungen' },
    )
    const { draft, leftOut } = draftOfTable('shop', source, CHOICES)
    const { files, manifests } = linted(draft)
    assert.deepEqual(leftOut, ['left out: shape: the lake has no type for geometry'])
    assert.match(files.output, /\n {2}# left out: shape: the lake has no type for geometry\n/)
    assert.deepEqual(
      manifests.output.columns.map(({ name }) => name),
      ['source_tenant_id', 'Full_Name_x', 'deleted', 'full_name', 'Groe_cm'].map((name) =>
        name === 'Groe_cm' ? 'Grosse_cm' : name,
      ),
    )
    assert.match(manifests.compute.transform ?? '', /"Full ""Name""\n# x: \[" AS "Full_Name_x"/)
    assert.deepEqual(manifests.inputs[0]?.columns?.length, 5)
    assert.equal(manifests.product.name, 'bestellungen')
  })

  it('give a key that is somebody’s the class whose mask tells rows apart, and no class of a person to the time', () => {
    const source = table(
      [column('email', 'string', false), column('birth_date', 'date', false), column('seen', 'date')],
      { primary_key: ['email'] },
    )
    const { manifests, files } = linted(draftOfTable('shop', source, CHOICES).draft)
    assert.deepEqual(
      manifests.output.columns.map(({ classification, role }) => [classification, role]),
      [
        ['pii.identifier', 'identity'],
        ['pii.birth_date', 'attribute'],
        ['public', 'time'],
      ],
    )
    assert.doesNotMatch(files.serving, /type: timeseries/)
    assert.match(files.serving, /# timeseries would leave out rows without seen/)
  })

  it('have no key that cannot be one, and say so', () => {
    const key = { primary_key: ['a', 'b'] }
    const { files, manifests } = linted(
      draftOfTable('shop', table([column('a', 'long', false), column('b', 'double', false)], key), CHOICES).draft,
    )
    assert.deepEqual([manifests.output.primaryKey, manifests.output.writeMode], [[], 'replace'])
    assert.match(files.output, /# The key of the table is none here: of b, values of type double/)
    assert.deepEqual(
      manifests.serving.endpoints.map(({ type }) => type),
      ['analytics'],
    )
    assert.match(files.serving, /# lookup and realtime need a key/)
  })

  it('are none of a table that cannot be read at all', () => {
    const twice = table([column('a', 'long'), column('A', 'long')])
    assert.throws(() => draftOfTable('shop', twice, CHOICES), /one name but for its case/)
    assert.throws(() => draftOfTable('shop', table([]), CHOICES), /no column that can be carried/)
  })

  it('take the first thousand of 2,000 columns, the key among them, in files that a server takes', () => {
    const long = (n: number) => `column_with_a_name_as_long_as_names_may_be_${'x'.repeat(15)}_${n}`.slice(-63)
    const columns = Array.from({ length: 2000 }, (_, n) => column(long(n), 'decimal(38,9)', n % 2 === 0))
    const source = table([...columns, column('id', 'long', false)], { primary_key: ['id'] })
    const { draft, leftOut } = draftOfTable('shop', source, CHOICES)
    const { manifests, files } = linted(draft)
    assert.deepEqual([manifests.output.columns.length, leftOut.length], [1000, 1001])
    assert.deepEqual(manifests.output.primaryKey, ['id'])
    assert.match(files.output, /# and 901 more\n/)
  })

  it('are valid whatever the table is', () => {
    const random = generator(20_261_127)
    for (let round = 0; round < 400; round += 1) {
      const source = randomTable(random)
      let draft: ProductDraft
      try {
        draft = draftOfTable('db', source, { ...CHOICES, guess: random(2) === 0 }).draft
      } catch (error) {
        assert.match((error as Error).message, /cannot be read|no column that can be carried/)
        continue
      }
      const { manifests } = linted(draft)
      const read = new Set(source.columns.map(({ name }) => name))
      for (const name of manifests.inputs[0]?.columns ?? []) assert.ok(read.has(name))
      assert.ok(manifests.output.columns.every(({ name }) => draft.columns.some((one) => one.name === name)))
    }
  })
})

describe('manifests of a product', () => {
  const served: ServedProduct = {
    name: 'orders',
    namespace: 'sales',
    classification: 'confidential',
    current_version: '1.0.0',
    schema: [
      { name: 'id', type: 'long', role: 'identity', classification: 'public', nullable: false },
      { name: 'email', type: 'string', role: 'attribute', classification: 'pii.email', nullable: false },
      {
        name: 'at',
        type: 'timestamp',
        role: 'time',
        classification: 'public',
        nullable: false,
        description: 'When: "x"',
      },
    ],
  }

  it('are made of it, with its classes, and no more open than it is', () => {
    const { manifests, warnings } = linted(draftOfProduct(served, 'finance/totals', null, STORES))
    assert.deepEqual(warnings, [])
    const { product, inputs, output } = manifests
    assert.deepEqual(
      [product.domain, product.name, product.archetype, product.classification],
      ['finance', 'totals', 'consumer_aligned', 'confidential'],
    )
    assert.deepEqual([inputs[0]?.table, inputs[0]?.epoch], ['sales.orders', 'same_wave'])
    assert.deepEqual(
      output.columns.map(({ name, classification, nullable }) => [name, classification, nullable]),
      [
        ['id', 'public', false],
        ['email', 'pii.email', true],
        ['at', 'public', false],
      ],
    )
  })

  it('have another name than it, and are none of what is not in service', () => {
    const same = draftOfProduct(served, 'sales/orders', null, STORES)
    assert.equal(linted(same).manifests.product.name, 'orders_view')
    assert.throws(() => draftOfProduct({ ...served, current_version: null }, 'x', null, STORES), /not in service/)
  })

  it('fit into a file that a server takes, whatever its columns say of themselves', () => {
    const schema = Array.from({ length: 1000 }, (_, n) => ({
      ...{ name: `c${n}`, type: 'string', role: null, classification: 'public', nullable: true },
      description: 'a'.repeat(4000),
    }))
    assert.equal(linted(draftOfProduct({ ...served, schema }, 'x', null, STORES)).manifests.output.columns.length, 1000)
  })
})

describe('names', () => {
  it('follow the rules of names, or are none', () => {
    const wanted = {
      'Customer-360': 'customer_360',
      raw_pg_orders: 'orders',
      'Bücher & Co.': 'bucher_co',
      '2024': null,
      注文: null,
    }
    for (const [text, name] of Object.entries(wanted)) assert.equal(nameFrom(text, 'name'), name, text)
    assert.equal(nameFrom('public', 'namespace'), null)
    assert.equal(nameFrom('sluice_x', 'namespace'), 'x')
  })

  it('come from the folder where it says them', () => {
    assert.deepEqual(namesOfFolder('./crm/People/'), { name: 'people', namespace: 'crm' })
    assert.deepEqual(namesOfFolder('../people'), { name: 'people', namespace: null })
  })
})

const TYPES = [
  ...['string', 'boolean', 'integer', 'long', 'float', 'double', 'decimal(38,9)', 'decimal(5,5)', 'date', 'timestamp'],
  ...['timestamptz', 'uuid', 'binary', 'json', 'geometry', 'decimal(99,2)', '', 'constructor'],
]
const NAMES = [
  ...[
    'id',
    'email',
    'null',
    'true',
    '~',
    '1e3',
    'No',
    'y',
    '<<',
    '__proto__',
    'constructor',
    'tenant_id',
    '__x',
    'valid_from',
  ],
  ...[
    'a: b',
    '- x',
    '# c',
    "it's",
    'say "x"',
    'a\nb',
    '\t',
    ' ',
    '{}',
    '[x]',
    '*a',
    '&a',
    '!t',
    '%',
    '@',
    '`',
    'ü',
    '数',
    '😀',
  ],
  ...[
    '\u0085',
    '\u2028',
    '\ud800',
    'x\0y',
    '',
    'a'.repeat(63),
    'b'.repeat(64),
    'c'.repeat(300),
    'select',
    'this',
    '0',
    '\u202e',
  ],
  ...['key', 'rank', 'epoch', 'tags', 'updated_at', 'birth_date', '---', '...', 'a|b', '>', '\\', '{id}'],
]

/** The same numbers for the same seed. */
function generator(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

function randomTable(random: (below: number) => number): DiscoveredTable {
  const pick = <T>(from: readonly T[]): T => from[random(from.length)] as T
  const names = new Set(
    Array.from({ length: 1 + random(12) }, () => pick(NAMES) + (random(3) === 0 ? pick(NAMES) : '')),
  )
  const columns = [...names].map((name) => column(name, pick(TYPES), random(2) === 0))
  const key = columns.filter(() => random(4) === 0).map(({ name }) => name)
  return table(columns, {
    name: pick(NAMES),
    schema: pick(['public', 'sales', '注', 'raw_x', 'a b']),
    primary_key: random(5) === 0 ? [...key, 'not there'] : key.toReversed(),
    suggested_cursor: random(2) === 0 ? (columns[0]?.name ?? null) : null,
  })
}
