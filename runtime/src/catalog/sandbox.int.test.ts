/** Commits that outside engines could send to plain tables: what is taken, and what no author may do with paths. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import {
  type CreateRequest,
  type DataFile,
  fromIceberg,
  type Int64,
  Manifests,
  parseChange,
  stageForeign,
  type TableFiles,
  type TableMetadata,
  type TableRequirement,
  type TableUpdate,
} from '@sluice/iceberg'
import { lakeBytes, type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import { filesIn } from './folders.ts'
import { Sandbox } from './sandbox.ts'

const SIGNAL = new AbortController().signal
const NONE = async () => {}
const missing = () => new Error('missing')
const refOf = (table: string, tenant = 'acme') => ({ warehouse: tenant, namespace: 'sandbox', table })
const SCHEMA = {
  type: 'struct',
  fields: [
    { id: 7, name: 'id', required: false, type: 'long' },
    { id: 3, name: 'name', required: false, type: 'string' },
  ],
} as const

let lake: RegistryLake
let sandbox: Sandbox
const manifests = new Manifests()

before(async () => {
  lake = await startRegistryLake()
  sandbox = new Sandbox({ pool: lake.pool, store: lake.store, lake: lake.lake, nowMs: Date.now })
  for (const tenant of ['acme', 'other']) {
    await lake.lake.provision(tenant)
    await sandbox.open(tenant, {}, NONE)
  }
})
after(() => lake[Symbol.asyncDispose]())

interface Made {
  readonly metadata: TableMetadata
  readonly files: TableFiles
  readonly table: string
}

async function make(table: string, request: Partial<CreateRequest> = {}, tenant = 'acme'): Promise<Made> {
  const { metadata } = await sandbox.create(
    tenant,
    { name: table, schema: { ...SCHEMA, fields: [...SCHEMA.fields] }, ...request },
    NONE,
    SIGNAL,
  )
  const folder = metadata.location.split('/').at(-1) as string
  return { metadata, files: filesIn(lake.store, refOf(table, tenant), folder), table }
}

function commit(made: Made, updates: readonly TableUpdate[], requirements: readonly TableRequirement[] = []) {
  return sandbox.commit([{ ref: made.files.ref, requirements, updates }], missing, NONE, SIGNAL)
}

async function dataFile(files: TableFiles, at?: string): Promise<DataFile> {
  const uri = at ?? files.dataUri(`${randomUUID()}.parquet`)
  const path = lake.store.pathOf(uri)
  if (at === undefined && path !== null) await lake.store.put(path, Buffer.from('PAR1'))
  const none = new Map()
  return {
    content: 'data',
    uri,
    rows: 1,
    sizeBytes: 4,
    specId: 0,
    partition: [],
    columnSizes: none,
    valueCounts: none,
    nullCounts: none,
    nanCounts: none,
    lowerBounds: none,
    upperBounds: none,
    sortOrderId: null,
  }
}

interface Forgery {
  readonly file?: DataFile
  /** Where the manifest, and the list, lie. */
  readonly manifestOf?: TableFiles
  readonly listOf?: TableFiles
  /** How many, of one file each. Default 1. */
  readonly manifests?: number
}

/** Files of an append as an engine writes them, and the updates that publish it. */
async function append(made: Made, forgery: Forgery = {}): Promise<readonly TableUpdate[]> {
  const { files } = made
  const state = await lake.lake.load(files.ref)
  const metadata = state?.metadata ?? made.metadata
  const id: Int64 = Math.floor(Math.random() * 2 ** 50)
  const sequenceNumber = Number(metadata['last-sequence-number']) + 1
  const schema = fromIceberg(metadata.schemas.at(-1) as TableMetadata['schemas'][number])
  const spec = metadata['partition-specs'][0] as TableMetadata['partition-specs'][number]
  const manifestOf = forgery.manifestOf ?? files
  const listOf = forgery.listOf ?? files
  const written = Array.from({ length: forgery.manifests ?? 1 }, async () => {
    const file = forgery.file ?? (await dataFile(files))
    const entry = { status: 'added', snapshotId: id, sequenceNumber: null, fileSequenceNumber: null, file } as const
    return manifests.writeManifest(
      manifestOf,
      manifestOf.metadataUri(`${randomUUID()}-m0.avro`),
      { spec, schema, kind: 'data' },
      { snapshotId: id, sequenceNumber },
      [entry],
    )
  })
  const list = listOf.metadataUri(`snap-${id}.avro`)
  await manifests.writeList(listOf, list, { id, parentId: null, sequenceNumber }, await Promise.all(written))
  const snapshot = {
    'snapshot-id': id,
    'sequence-number': sequenceNumber,
    'timestamp-ms': Date.now(),
    'manifest-list': list,
    summary: { operation: 'append', 'added-records': '1' },
    'schema-id': 0,
  }
  return [
    { action: 'add-snapshot', snapshot },
    { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch', 'snapshot-id': id },
  ]
}

describe('tables of the sandbox', () => {
  test('get field ids of their own, a folder of their own, and a count of their bytes', async () => {
    const made = await make('orders', {
      'partition-spec': { fields: [{ 'source-id': 3, name: 'p', transform: 'identity' }] },
      schema: { ...SCHEMA, fields: [...SCHEMA.fields], 'identifier-field-ids': [] },
    })
    assert.deepEqual(
      made.metadata.schemas[0]?.fields.map(({ id, name }) => [id, name]),
      [
        [1, 'id'],
        [2, 'name'],
      ],
    )
    assert.deepEqual(made.metadata['partition-specs'][0]?.fields[0], {
      'source-id': 2,
      'field-id': 1000,
      name: 'p',
      transform: 'identity',
    })
    assert.match(made.metadata.location, /\/sluice-acme\/acme\/sandbox\/orders-[0-9a-f]{32}$/)
    const before = await lakeBytes(lake.pool, 'acme')
    const plain = await make('plain')
    await commit(plain, await append(plain))
    assert.ok((await lakeBytes(lake.pool, 'acme')) > before)
    assert.equal((await lake.lake.scan(refOf('plain'))).files.length, 1)
  })

  test('keep their files when they are renamed, and a new one of the old name has others', async () => {
    const made = await make('old')
    await commit(made, await append(made))
    await sandbox.rename(made.files.ref, 'new', missing, NONE)
    const again = await make('old')
    assert.notEqual(again.metadata.location, made.metadata.location)
    const scan = await lake.lake.scan(refOf('new'))
    assert.equal(scan.files.length, 1)
    await assert.rejects(sandbox.rename(refOf('old'), 'NEW', missing, NONE), { code: 'catalog_table_exists' })
    await assert.rejects(make('New'), { code: 'catalog_table_exists' })
    await sandbox.drop(refOf('old'), missing, NONE, SIGNAL)
    assert.equal((await lake.lake.scan(refOf('new'))).files.length, 1)
    assert.deepEqual(await Array.fromAsync(lake.store.list(again.files.root)), [])
    assert.deepEqual(await lake.lake.lostTables('acme'), [])
  })

  test('are cleaned and checked in their own folders', async () => {
    const made = await make('kept')
    await commit(made, await append(made))
    await sandbox.rename(made.files.ref, 'kept2', missing, NONE)
    lake.setTime(Date.now() + 48 * 3_600_000)
    for (const ref of [...(await lake.lake.tables('acme')), ...(await lake.lake.lostTables('acme'))]) {
      await lake.lake.clean(ref, { minAgeMs: 3_600_000 }, SIGNAL)
    }
    const [file] = (await lake.lake.scan(refOf('kept2'))).files
    assert.notEqual(await lake.store.stat(file?.path ?? ''), null)
  })

  test('change only as their writers say they know them', async () => {
    const made = await make('known')
    const first = await append(made)
    const wasEmpty = { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': null } as const
    const sameTable = { type: 'assert-table-uuid', uuid: made.metadata['table-uuid'] } as const
    await commit(made, first, [wasEmpty, sameTable])
    await assert.rejects(commit(made, await append(made), [wasEmpty]), { code: 'lake_commit_conflict' })
    await assert.rejects(commit(made, [], [{ type: 'assert-create' }]), { code: 'lake_commit_conflict' })
    await assert.rejects(commit(made, [], [{ ...sameTable, uuid: randomUUID() }]), { code: 'lake_commit_conflict' })
    await assert.rejects(commit(made, first), { code: 'lake_update_invalid' })
  })

  test('lose no change that writers make at once', async () => {
    const made = await make('busy')
    const names = Array.from({ length: 8 }, (_, at) => `writer-${at}`)
    const outcomes = await Promise.allSettled(
      names.map(async (name) => {
        for (;;) {
          try {
            return await commit(made, [{ action: 'set-properties', updates: { [name]: 'done' } }])
          } catch (error) {
            if ((error as { code?: string }).code !== 'lake_commit_conflict') throw error
          }
        }
      }),
    )
    assert.ok(outcomes.every(({ status }) => status === 'fulfilled'))
    const properties = (await lake.lake.load(made.files.ref))?.metadata.properties ?? {}
    assert.deepEqual(
      names.filter((name) => properties[name] !== 'done'),
      [],
    )
  })

  test('are changed together or not at all', async () => {
    const [one, two] = [await make('one'), await make('two')]
    const set = (made: Made) => ({
      ref: made.files.ref,
      requirements: [] as readonly TableRequirement[],
      updates: [{ action: 'set-properties', updates: { a: 'b' } }] as readonly TableUpdate[],
    })
    const stale = { ...set(two), requirements: [{ type: 'assert-table-uuid', uuid: randomUUID() }] as const }
    await assert.rejects(sandbox.commit([set(one), stale], missing, NONE, SIGNAL), { code: 'lake_commit_conflict' })
    await assert.rejects(
      sandbox.commit([set(one), { ...set(two), ref: refOf('three') }], missing, NONE, SIGNAL),
      /missing/,
    )
    assert.equal((await lake.lake.load(refOf('one')))?.metadata.properties['a'], undefined)
    await sandbox.commit([set(one), set(two)], missing, NONE, SIGNAL)
    assert.equal((await lake.lake.load(refOf('one')))?.metadata.properties['a'], 'b')
  })
})

describe('a commit', () => {
  test('names no file outside of its table', async () => {
    const made = await make('mine')
    const neighbour = await make('neighbour')
    const foreign = await make('foreign', {}, 'other')
    const refused = async (forgery: Forgery) =>
      assert.rejects(
        append(made, forgery).then((updates) => commit(made, updates)),
        { code: 'catalog_path_foreign' },
      )
    for (const other of [neighbour, foreign]) {
      await refused({ file: await dataFile(other.files) })
      await refused({ manifestOf: other.files })
      await refused({ listOf: other.files })
    }
    const { location } = made.metadata
    for (const uri of [
      `${location}/data/../../${neighbour.files.root.split('/').at(-1)}/data/x.parquet`,
      `${location}/data/%2e%2e/%2e%2e/x.parquet`,
      `${location}-else/data/x.parquet`,
      `${location}/x.parquet`,
      `${location}/data/`,
      `${location}/data/a\u0000b`,
      'file:///etc/passwd',
      '/etc/passwd',
      's3://bucket/x.parquet',
      'https://example.org/x.parquet',
      '',
    ]) {
      await refused({ file: await dataFile(made.files, uri) })
    }
    assert.equal((await lake.lake.load(made.files.ref))?.snapshotId, null)
  })

  test('names files that are there, as long as it says, and of kinds that are read', async () => {
    const made = await make('honest')
    const absent = await dataFile(made.files, made.files.dataUri('absent.parquet'))
    await assert.rejects(
      append(made, { file: absent }).then((updates) => commit(made, updates)),
      {
        code: 'catalog_files_unreadable',
      },
    )
    const short = { ...(await dataFile(made.files)), sizeBytes: 5 }
    await assert.rejects(
      append(made, { file: short }).then((updates) => commit(made, updates)),
      {
        code: 'catalog_files_unreadable',
      },
    )
    const [add] = await append(made)
    if (add?.action !== 'add-snapshot') throw new Error('no snapshot')
    const snapshot = { ...add.snapshot, 'manifest-list': made.files.metadataUri('none.avro') }
    await assert.rejects(commit(made, [{ action: 'add-snapshot', snapshot }]), { code: 'catalog_files_unreadable' })
    const statistics = { 'snapshot-id': 1, 'statistics-path': 'file:///etc/passwd' }
    await assert.rejects(commit(made, [{ action: 'set-statistics', statistics }]), { code: 'catalog_path_foreign' })
  })

  test('names no more files than one manifest may, in however many manifests', async () => {
    const made = await make('many')
    const base = await lake.lake.load(made.files.ref)
    const stage = async (count: number) => {
      const updates = await append(made, { manifests: count })
      const few = new Manifests({ maxEntries: 2 })
      return stageForeign(few, made.files, base, { requirements: [], updates }, Date.now(), SIGNAL)
    }
    await stage(2)
    await assert.rejects(stage(3), { kind: 'INVALID_DATA', code: 'catalog_files_unreadable' })
  })

  test('does not move a table, nor take another’s folder', async () => {
    const made = await make('fixed')
    const neighbour = await make('next')
    for (const location of [neighbour.metadata.location, 'file:///tmp', `${made.metadata.location}/data`]) {
      await assert.rejects(commit(made, [{ action: 'set-location', location }]), { code: 'catalog_location_refused' })
    }
    await assert.rejects(commit(made, [{ action: 'assign-uuid', uuid: randomUUID() }]), {
      code: 'catalog_request_invalid',
    })
    const creation = async (location: string) => {
      const { metadata } = await sandbox.create(
        'acme',
        { name: 'late', schema: { ...SCHEMA, fields: [...SCHEMA.fields] }, 'stage-create': true },
        NONE,
        SIGNAL,
      )
      const updates: readonly TableUpdate[] = [
        { action: 'set-location', location: location === '' ? metadata.location : location },
        { action: 'add-schema', schema: metadata.schemas[0] as TableMetadata['schemas'][number], 'last-column-id': 2 },
        { action: 'set-current-schema', 'schema-id': -1 },
        { action: 'add-spec', spec: { 'spec-id': 0, fields: [] } },
        { action: 'set-default-spec', 'spec-id': -1 },
      ]
      const requirements = [{ type: 'assert-create' }] as const
      return sandbox.commit([{ ref: refOf('late'), requirements, updates }], missing, NONE, SIGNAL)
    }
    const foreign = (await make('theirs', {}, 'other')).metadata.location
    const product = lake.store.uri('sluice-acme/acme/crm/people')
    for (const location of [
      neighbour.metadata.location,
      foreign,
      product,
      'file:///etc',
      `${made.metadata.location}/x`,
    ]) {
      await assert.rejects(creation(location), { code: 'catalog_location_refused' }, location)
    }
    await creation('')
    assert.notEqual(await lake.lake.load(refOf('late')), null)
  })

  test('has the folder of its staged creation until the table is there', async () => {
    const staged = await make('staged', { 'stage-create': true })
    const path = `${staged.files.root}/data/x.parquet`
    assert.equal((await sandbox.staged(refOf('staged'), path))?.root, staged.files.root)
    assert.equal(await sandbox.staged(refOf('another'), path), null)
    assert.equal(await sandbox.staged(refOf('staged', 'other'), path), null)
    const unknown = filesIn(lake.store, refOf('staged'), `staged-${'0'.repeat(32)}`)
    assert.equal(await sandbox.staged(refOf('staged'), `${unknown.root}/data/x.parquet`), null)
    const lost = { ...refOf('staged'), table: staged.files.root.split('/').at(-1) as string }
    assert.ok(await lake.lake.hasOpenWrites(lost), 'its files are not cleaned away')
    const updates: readonly TableUpdate[] = [
      { action: 'set-location', location: staged.metadata.location },
      { action: 'add-schema', schema: staged.metadata.schemas[0] as TableMetadata['schemas'][number] },
      { action: 'set-current-schema', 'schema-id': -1 },
      { action: 'add-spec', spec: { 'spec-id': 0, fields: [] } },
      { action: 'set-default-spec', 'spec-id': -1 },
    ]
    await commit(staged, updates, [{ type: 'assert-create' }])
    assert.equal(await sandbox.staged(refOf('staged'), path), null)
  })

  test('keeps what is written readable', async () => {
    const made = await make('typed')
    const schema = (fields: readonly unknown[]) =>
      parseChange({
        requirements: [],
        updates: [
          { action: 'add-schema', schema: { 'schema-id': 1, fields } },
          { action: 'set-current-schema', 'schema-id': -1 },
        ],
      }).updates
    const field = (id: number, name: string, type: unknown) => ({ id, name, required: false, type })
    for (const [fields, code] of [
      [[field(1, 'id', 'int')], 'lake_schema_change_refused'],
      [[field(1, 'id', 'long'), field(3, 'ID', 'long')], 'catalog_request_invalid'],
      [[field(1, 'id', 'long'), field(1, 'other', 'long')], 'catalog_request_invalid'],
      [[field(1, '__sluice_x', 'long')], 'catalog_request_invalid'],
      [[], 'catalog_request_invalid'],
      [
        [field(1, 'id', { type: 'list', 'element-id': 9, element: 'int', 'element-required': false })],
        'lake_type_unsupported',
      ],
    ] as const) {
      await assert.rejects(commit(made, schema(fields)), { code }, JSON.stringify(fields))
    }
    await commit(made, schema([field(2, 'renamed', 'string'), field(3, 'added', 'decimal(38, 2)')]))
    assert.deepEqual(
      (await lake.lake.load(made.files.ref))?.schema.fields.map(({ name, type }) => [name, type.replace(/\s/g, '')]),
      [
        ['renamed', 'string'],
        ['added', 'decimal(38,2)'],
      ],
    )
    const spec = { 'spec-id': 1, fields: [{ 'source-id': 99, 'field-id': 1000, name: 'p', transform: 'identity' }] }
    await assert.rejects(commit(made, [{ action: 'add-spec', spec }]), { code: 'catalog_request_invalid' })
  })

  test('leaves nothing behind when it is refused at the last', async () => {
    const made = await make('tidy')
    const before = (await Array.fromAsync(lake.store.list(`${made.files.root}/metadata`))).length
    const refusal = async () => {
      throw Object.assign(new Error('no'), { name: 'SluiceError', kind: 'CONFLICT', code: 'lake_commit_conflict' })
    }
    const changes = [
      { ref: made.files.ref, requirements: [], updates: [{ action: 'set-properties', updates: { a: 'b' } }] as const },
    ]
    await assert.rejects(sandbox.commit(changes, missing, refusal, SIGNAL), { code: 'lake_commit_conflict' })
    assert.equal((await Array.fromAsync(lake.store.list(`${made.files.root}/metadata`))).length, before)
    assert.equal((await lake.lake.load(made.files.ref))?.metadata.properties['a'], undefined)
  })
})
