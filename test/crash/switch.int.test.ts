/**
 * A runtime that is killed while stores are given a version in their other place, or right after they serve it there, ends
 * where an undisturbed one does: with the new rows, and nothing of the former ones anywhere.
 */
import { strict as assert } from 'node:assert'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Client as Source } from 'pg'
import { type Client, manifests, ok } from '../../acceptance/client.ts'
import type { EmbeddedServer } from '../../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../../runtime/src/database/testing.ts'
import { SWITCH_FAULT_POINTS } from '../../runtime/src/fault-points.ts'
import { nameInStore } from '../../runtime/src/materializer/places.ts'
import type { Place } from '../../runtime/src/registry/endpoint-states.ts'
import {
  adminOf,
  connectSource,
  makeTenant,
  personOf,
  registerProduct,
  servedAt,
  uploadAndDeploy,
} from '../first-steps.ts'
import { until } from '../until.ts'
import { withDatabase } from './databases.ts'
import { RuntimeProcess } from './runtime-process.ts'

const PLAIN = ['city', 'note', 'word']
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: timeseries
    config: { time_column: seen, continuous_aggregates: [] }
  - type: realtime
    config: { key_template: "{id}" }
`

/** With those of the plain columns: no version can take the place of one that has others. */
function filesOf(names: readonly string[]) {
  const columns = [
    '  - { name: id, type: integer, role: identity, nullable: false }\n',
    '  - { name: seen, type: timestamp, nullable: false }\n',
    '  - { name: email, type: string, classification: pii.identifier }\n',
    ...names.map((name) => `  - { name: ${name}, type: string }\n`),
  ].join('')
  return manifests('public.people', { columns, endpoints: ENDPOINTS })
}

interface Copy {
  readonly endpoint: string
  readonly variant: string
  readonly place: Place
  readonly leftover: boolean
  readonly epoch: number
}

describe('stores that are given another version at a runtime that is killed', () => {
  let folder: string
  let data: string
  let server: EmbeddedServer
  let runtime: RuntimeProcess | null = null

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-switch-'))
    data = join(folder, 'data')
    server = await startCopiedServer(join(folder, 'source'))
    const source = new Source({ ...server.tcpAddress, database: 'postgres' })
    await source.connect()
    await source.query(`CREATE TABLE people
        (id int PRIMARY KEY, seen timestamp NOT NULL, email text, city text, note text, word text);
      INSERT INTO people SELECT i, '2026-01-01'::timestamp + i * interval '1 hour', 'a' || i || '@c.test', 'c', 'n', 'w'
        FROM generate_series(1, 9) i`)
    await source.end()
    await placeTestCluster(data)
    const developer = await start(null)
    await makeTenant(await adminOf({ url: await servedAt(runtime as RuntimeProcess), data }))
    await connectSource(developer, server.tcpAddress)
    await registerProduct(developer, 'people')
    await uploadAndDeploy(developer, 'people', filesOf(PLAIN))
    const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
    assert.equal((await developer.untilEnded(id)).state, 'succeeded')
  })

  after(async () => {
    await runtime?.stop()
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  async function start(fault: string | null): Promise<Client> {
    await runtime?.stop()
    runtime = await RuntimeProcess.spawn(data, fault)
    return personOf({ url: await servedAt(runtime), data }, 'dora')
  }

  const copies = () =>
    withDatabase(data, 'sluice_registry', async (client) => {
      const { rows } = await client.query<Copy>(
        'select endpoint, variant, place, leftover, applied_epoch::int as epoch from endpoint_states order by 1, 2',
      )
      return rows
    })
  /** What the stores in PostgreSQL have, whatever the registry says. */
  const stored = () =>
    withDatabase(data, 'sluice_serving', async (client) => {
      const { rows } = await client.query<{ name: string }>(
        "select endpoint || '/' || variant as name from sluice_store.datasets order by 1",
      )
      return rows.map(({ name }) => name)
    })

  let place: Place = 'first'
  for (const [index, fault] of SWITCH_FAULT_POINTS.flatMap((point) => [`${point}@1`, `${point}@4`]).entries()) {
    it(`goes on after a kill at ${fault}`, async () => {
      const killed = await start(fault)
      const names = PLAIN.filter((_, at) => at !== index % PLAIN.length)
      const { run_id: run } = await uploadAndDeploy(killed, 'people', filesOf(names), `${index + 2}.0.0`)
      assert.equal((await runtime?.ended)?.signal, 'SIGKILL', runtime?.output)
      const developer = await start(null)
      assert.equal((await developer.untilEnded(run)).state, 'succeeded')
      place = place === 'first' ? 'second' : 'first'
      await until('nothing is left of the former rows', async () => (await copies()).every(({ leftover }) => !leftover))
      const found = await copies()
      const epoch = found[0]?.epoch as number
      assert.deepEqual(
        found,
        ['lookup', 'realtime', 'timeseries'].flatMap((endpoint) =>
          ['clear', 'masked'].map((variant) => ({ endpoint, variant, place, leftover: false, epoch })),
        ),
      )
      const inPostgres = found.filter(({ endpoint }) => endpoint !== 'realtime')
      assert.deepEqual(
        await stored(),
        inPostgres.map(({ endpoint, variant }) => `${endpoint}/${nameInStore(variant, place)}`).sort(),
      )
      for (const door of ['latest?filter=id:3', 'timeseries?limit=1', 'realtime?key=3']) {
        const { body, status } = await developer.get(`/api/v1/products/people/${door}`)
        assert.equal(status, 200, JSON.stringify(body))
        const wanted = ['id', 'seen', 'email', ...names].sort()
        assert.deepEqual([Object.keys(body.data[0]).sort(), body.meta.epoch], [wanted, epoch], door)
      }
    })
  }
})
