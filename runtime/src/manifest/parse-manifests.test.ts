import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Edit, parseEdited } from './editing.ts'
import { EXAMPLES, type ExampleName, exampleContext, exampleFiles } from './examples.ts'
import { endpointOf } from './manifest-set.ts'
import { parseManifests } from './parse-manifests.ts'
import { MANIFEST_NAMES, type ManifestName } from './problem.ts'

const NAMES = Object.keys(EXAMPLES) as ExampleName[]

describe('parseManifests', () => {
  for (const name of NAMES) {
    it(`accepts the example ${name}`, async () => {
      const parsed = parseManifests(await exampleFiles(name), exampleContext(name))
      assert.deepEqual(parsed.problems, [])
      assert.ok(parsed.ok)
      assert.deepEqual(JSON.parse(JSON.stringify(parsed.manifests)), parsed.manifests)
    })
  }

  it('says the same whether a later default is written or not, so that versions from before it are known again', async () => {
    const digests = async (...edits: readonly Edit[]) => {
      const parsed = await parseEdited('customers', edits)
      assert.ok(parsed.ok)
      return parsed.manifests.digest
    }
    const plain = await digests()
    const swept = await digests(['inputs', 'mode: incremental', 'mode: incremental\n    deletes: key_sweep'])
    const complete = await digests(['output', 'write_mode: merge', 'write_mode: merge\nkeep_missing: false'])
    const kept = await digests(['output', 'write_mode: merge', 'write_mode: merge\nkeep_missing: true'])
    const unseen = await digests([
      'inputs',
      'mode: incremental',
      'mode: incremental\n    deletes: unseen\n    deletes_reason: none is ever deleted',
    ])
    assert.deepEqual([swept, complete], [plain, plain])
    assert.equal(new Set([plain, kept, unseen]).size, 3)
  })

  it('says how many rows may be left out only where the file does, with what it leaves open filled in', async () => {
    const limitOf = async (text: string) => {
      const parsed = await parseEdited('customers', [['quality', 'kind: Quality', `kind: Quality\n${text}`]])
      return parsed.ok ? parsed.manifests.quality.maxRejected : parsed.problems.map(({ path }) => path)
    }
    assert.equal(await limitOf(''), undefined)
    assert.deepEqual(await limitOf('max_rejected: { rows: 5 }'), { percent: 0.1, rows: 5 })
    assert.deepEqual(await limitOf('max_rejected: { share: 2.5% }'), { percent: 2.5, rows: 100 })
    assert.deepEqual(await limitOf('max_rejected: { share: 5 }'), ['max_rejected.share'])
  })

  it('fills in every default', async () => {
    const parsed = parseManifests(await exampleFiles('minimal'), exampleContext('minimal'))
    assert.ok(parsed.ok)
    const { digest, ...rest } = parsed.manifests
    assert.match(digest, /^[0-9a-f]{64}$/)
    assert.deepEqual(rest, {
      product: {
        name: 'countries',
        domain: 'reference',
        archetype: 'source_aligned',
        description: '',
        classification: 'internal',
        owner: { team: null, email: null },
        tags: [],
        access: { teams: [], users: [] },
        slo: { freshnessMs: null, availabilityPercent: null },
      },
      inputs: [
        {
          name: 'countries',
          connection: 'erp',
          table: 'countries',
          mode: 'auto',
          cursorColumn: null,
          primaryKey: [],
          columns: null,
          where: null,
          onSchemaChange: 'evolve',
          deletes: 'key_sweep',
        },
      ],
      output: {
        format: 'iceberg',
        columns: ['code', 'title'].map((name) => ({
          name,
          type: 'string',
          nullable: true,
          role: 'attribute',
          classification: 'public',
          description: '',
        })),
        primaryKey: [],
        partitioning: [],
        writeMode: 'replace',
      },
      quality: { checks: [] },
      serving: {
        endpoints: [],
        visualization: { enabled: false, dashboardTemplate: null, refreshIntervalMs: null },
      },
      compute: {
        engine: 'auto',
        transform: null,
        resources: { memoryBytes: null, threads: null, timeoutMs: null },
        trigger: 'on_ingestion',
      },
    })
  })

  it('fills in the defaults of the four endpoint types', async () => {
    const type2: Edit = ['serving', '      index_columns: [customer_id, country]\n', '']
    const parsed = await parseEdited('customers', [
      type2,
      ['serving', '      history_mode: type_2\n      tracked_columns: [country, revenue]\n', '      {}\n'],
      ['serving', '      time_column: last_order_at\n      chunk_interval: 2 weeks\n', ''],
      ['serving', '      ttl: 7d\n      include_columns: [customer_id, order_count, revenue]\n', ''],
    ])
    assert.ok(parsed.ok)
    const config = (type: string) => endpointOf(parsed.manifests.serving, type)?.config
    assert.deepEqual(config('lookup'), { index_columns: ['customer_id'], history_mode: 'current', tracked_columns: [] })
    assert.equal(config('timeseries')?.time_column, 'last_order_at')
    assert.equal(config('timeseries')?.chunk_interval, '1 day')
    assert.deepEqual(config('analytics'), {})
    assert.deepEqual(config('realtime'), {
      key_template: 'customer:{customer_id}',
      ttl: '24h',
      include_columns: ['customer_id', 'full_name', 'country', 'order_count', 'revenue', 'last_order_at'],
    })
  })

  it('lets what a file says hold for its checks, as far as they can tell rows', async () => {
    const parsed = await parseEdited('customers', [])
    assert.ok(parsed.ok)
    const { checks } = parsed.manifests.quality
    const on = Object.fromEntries(checks.map((check) => [check.name, check.onError]))
    assert.deepEqual(on, {
      id_present: 'quarantine',
      id_unique: 'quarantine',
      known_country: 'quarantine',
      revenue_not_negative: 'quarantine',
      name_written: 'quarantine',
      customer_exists: 'quarantine',
      enough_rows: 'block',
      recent: 'block',
      source_columns: 'block',
      counts_agree: 'publish',
    })
    assert.deepEqual(checks[2]?.threshold, { percent: 1 })
  })

  it('gives the same digest to the same content in other words', async () => {
    const plain = await parseEdited('customers', [])
    const reordered = await parseEdited('customers', [
      ['product', 'kind: Product\n', ''],
      ['product', 'apiVersion: svc/v1', 'kind: "Product"\napiVersion: svc/v1 # x'],
      ['quality', 'not_null: customer_id', 'not_null: [customer_id]'],
      ['output', 'bucket[16]', 'bucket(16)'],
    ])
    const changed = await parseEdited('customers', [['product', 'ada', 'bob']])
    assert.ok(plain.ok && reordered.ok && changed.ok)
    assert.equal(plain.manifests.digest, reordered.manifests.digest)
    assert.notEqual(plain.manifests.digest, changed.manifests.digest)
  })

  it('names every missing file', () => {
    const { problems } = parseManifests({}, exampleContext('minimal'))
    assert.deepEqual(
      problems.map((problem) => problem.message),
      MANIFEST_NAMES.map((name) => `${name}.yaml is missing`),
    )
  })

  it('reports the problems of all files at once, in order', async () => {
    const files = await exampleFiles('customers')
    const broken = (name: ManifestName, from: string, to: string): void => {
      files[name] = Buffer.from(Buffer.from(files[name]).toString().replace(from, to))
    }
    broken('product', 'archetype: aggregate', 'archetype: agregate')
    broken('inputs', 'mode: full', 'mode: fulll')
    broken('output', 'type: integer', 'type: int')
    broken('quality', 'not_null: customer_id', 'not_null: customer_idd')
    broken('serving', '[country, revenue]', '[countri, revenue]')
    broken('compute', 'threads: 2', 'threads: two')
    const { problems } = parseManifests(files, exampleContext('customers'))
    assert.deepEqual(
      problems.map(({ manifest, path, line, hint }) => ({ manifest, path, line, hint })),
      [
        { manifest: 'product', path: 'archetype', line: 5, hint: 'Did you mean aggregate?' },
        { manifest: 'inputs', path: 'inputs[1].mode', line: 15, hint: 'Did you mean full?' },
        { manifest: 'output', path: 'schema[3].type', line: 18, hint: 'Did you mean integer?' },
        { manifest: 'quality', path: 'checks[0].not_null', line: 6, hint: 'Did you mean customer_id?' },
        { manifest: 'serving', path: 'endpoints[0].config.tracked_columns[0]', line: 9, hint: 'Did you mean country?' },
        { manifest: 'compute', path: 'resources.threads', line: 11, hint: undefined },
      ],
    )
  })

  it('points to the key of an unknown field and suggests the right one', async () => {
    const { problems } = await parseEdited('customers', [['serving', 'ttl: 7d', 'tttl: 7d']])
    assert.deepEqual(problems, [
      {
        manifest: 'serving',
        line: 21,
        column: 7,
        path: 'endpoints[3].config.tttl',
        message: 'unknown field "tttl"',
        hint: 'Did you mean ttl?',
      },
    ])
  })

  it('shows as many problems as anybody reads, and says how many more there are', async () => {
    const files = await exampleFiles('minimal')
    const names = Array.from({ length: 1000 }, (_, index) => `${'a'.repeat(40)}${index}`)
    const checks = Array.from(
      { length: 19 },
      (_, index) => `  - {name: c${index}, not_null: [${names.slice(0, 190).map((name) => `b${name}`)}]}`,
    )
    const columns = names.map((name) => `  - {name: ${name}, type: string}`)
    const { problems } = parseManifests(
      {
        ...files,
        output: Buffer.from(`apiVersion: svc/v1\nkind: Output\nschema:\n${columns.join('\n')}`),
        quality: Buffer.from(`apiVersion: svc/v1\nkind: Quality\nchecks:\n${checks.join('\n')}`),
      },
      exampleContext('minimal'),
    )
    assert.equal(problems.length, 201)
    assert.equal(problems[0]?.hint, `Did you mean ${names[0]}?`)
    assert.equal(problems.at(-1)?.message, `and ${19 * 190 - 200} more`)
  })
})
