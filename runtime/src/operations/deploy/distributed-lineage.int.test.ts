import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import compute from '@sluice/compute/trino'
import { createEngine, type Engine } from '@sluice/engine'
import { testEngineProgram } from '@sluice/engine/testing'
import type { TenantCall } from '../../flow.ts'
import type { SourceTable } from '../../manifest/context.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { rawColumn } from '../../quality/check-readings.ts'
import { registryOfClasses } from '../../registry/raw-classes.fixture.ts'
import { classesOf, hiddenColumns, laundered } from './column-classes.ts'
import type { DeployDeps } from './deps.ts'
import { checkTransform } from './sources.ts'

const CALL = { tenant: 'acme', signal: new AbortController().signal } as TenantCall
const raw = (column: string) => rawColumn({ connection: 'crm', table: 'p' }, column)

let dir: string
let engine: Engine
let platform: DeployDeps

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-lineage-'))
  engine = createEngine({
    scratchDir: join(dir, 'scratch'),
    ...(await testEngineProgram()),
    maxChildren: 1,
    warmChildren: 0,
    maxQueued: 4,
  })
  const trino = await compute.open({ url: 'http://127.0.0.1:9', catalog: {} }, null as never)
  // Trino is not asked here: it accepts each of these texts.
  const distributed = { check: async () => undefined, read: trino.read.bind(trino) }
  const pool = registryOfClasses([{ rawColumn: raw('email'), class: 'pii.identifier' }])
  platform = { engine, distributed, pool, rules: { sensitive: [], strategies: {} } } as unknown as DeployDeps
})

after(async () => {
  await engine?.close()
  await rm(dir, { recursive: true, force: true })
})

/** Of a product that shows `id` and `note` to everybody, over a table whose `email` is hidden elsewhere. */
async function originsOf(transform: string | null, classes: Readonly<Record<string, string>>, hidden = 'note') {
  const columns = ['email', 'id', hidden].map((name) => ({ name, type: 'string', nullable: true }) as const)
  const table: SourceTable = { schema: 'public', name: 'p', columns, primaryKey: [], suggestedCursor: null }
  const manifests = {
    inputs: [{ connection: 'crm', table: 'p', name: 'p', where: null, columns: null, mode: 'full' }],
    output: {
      primaryKey: [],
      columns: Object.entries(classes).map(([name, classification]) => ({
        name,
        type: 'string',
        nullable: true,
        classification,
      })),
    },
    compute: { engine: 'distributed', transform },
  } as unknown as ManifestSet
  const bound = await checkTransform(platform, CALL, manifests, new Map([['crm', [table]]]))
  const origins = bound?.origins ?? null
  const secret = await hiddenColumns(platform, { tenant: 'acme' }, manifests, origins)
  return { manifests, origins, laundered: laundered(platform, manifests, origins, secret) }
}

const PUBLIC = { id: 'public', note: 'public' }

describe('the columns of a transform in Trino', () => {
  it('may be made of anything where Trino reads another column than the engine does', async () => {
    for (const transform of [
      'WITH t(a, note, c) AS (SELECT * FROM (SELECT email, id AS k, note FROM p) x JOIN (SELECT id AS k FROM p) y USING (k)) SELECT a AS id, note FROM t',
      'SELECT u.id, s.v AS note FROM (SELECT id, note AS secret FROM p) u CROSS JOIN LATERAL (SELECT secret AS v FROM (SELECT * FROM (SELECT id AS i FROM p) semi JOIN (SELECT id AS k, email AS secret FROM p) z ON i = k) t WHERE i = u.id) s',
      'WITH "é" AS (SELECT id, note AS v FROM p) SELECT id, v AS note FROM (WITH "É" AS (SELECT id, email AS v FROM p) SELECT id, v FROM "é") x',
      'SELECT id, (SELECT "notı" FROM (SELECT email AS noti FROM p LIMIT 1) i) AS note FROM (SELECT id, note AS "notı" FROM p) o',
    ])
      assert.deepEqual((await originsOf(transform, PUBLIC)).laundered, ['id', 'note'], transform)
  })

  it('may be made of anything where a name of the tables or of the output is in no ASCII', async () => {
    assert.deepEqual((await originsOf('SELECT id FROM p', { id: 'public' }, 'notı')).laundered, ['id'])
    const output = await originsOf('SELECT id, note AS "notı" FROM p', { id: 'public', notı: 'public' })
    assert.deepEqual(output.laundered, ['id', 'notı'])
  })

  it('are what the engine says where both read alike', async () => {
    for (const transform of [
      null,
      'SELECT id, note FROM p',
      'SELECT a.id, max(upper(b.note)) AS note FROM p a JOIN p b ON a.id = b.id GROUP BY a.id',
      "WITH t AS (SELECT id, note, email FROM p) SELECT id, CASE WHEN note = '' THEN NULL ELSE note END AS note FROM t",
    ]) {
      const { origins, laundered: refused } = await originsOf(transform, PUBLIC)
      assert.deepEqual(refused, [], transform ?? '')
      assert.ok(origins?.every(({ guessed }) => guessed === undefined))
    }
    assert.deepEqual((await originsOf('SELECT id, email AS note FROM p', PUBLIC)).laundered, ['note'])
  })

  it('give their class to what they seem to be made of, too, where that is guessed', async () => {
    const classes = { id: 'public', contact: 'pii.identifier' }
    const { manifests, origins } = await originsOf(
      'SELECT p.id, x.email AS contact FROM p JOIN p x USING (id)',
      classes,
    )
    assert.deepEqual(classesOf(manifests, origins).get(raw('email')), ['pii.identifier'])
  })
})
