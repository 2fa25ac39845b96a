import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { SourceTable } from '../../manifest/context.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { rawColumn } from '../../quality/check-readings.ts'
import { registryOfClasses } from '../../registry/raw-classes.fixture.ts'
import { classesOf, hiddenColumns, laundered } from './column-classes.ts'
import type { DeployDeps } from './deps.ts'
import { checkTransform } from './sources.ts'

const PEOPLE = { connection: 'crm', table: 'people' }
const raw = (column: string, table = 'people') => rawColumn({ connection: 'crm', table }, column)

function manifests(classes: Readonly<Record<string, string>>, read: readonly string[] | null = null): ManifestSet {
  const columns = Object.entries(classes).map(([name, classification]) => ({ name, type: 'string', classification }))
  const inputs = [{ ...PEOPLE, name: 'people', where: null, columns: read, mode: 'full' }]
  const compute = { engine: 'embedded', transform: 'SELECT * FROM people' }
  return { inputs, output: { columns, primaryKey: [] }, compute } as unknown as ManifestSet
}

describe('the classes that a version gives to raw columns', () => {
  it('are all that it gives: one that hides nothing replaces none that does', () => {
    const version = manifests({ ssn: 'pii.identifier', ssn_valid: 'internal', initials: 'pii.name' })
    const origins = ['ssn', 'ssn_valid', 'initials'].map((column) => ({ column, sources: [raw('ssn')] }))
    for (const order of [origins, origins.toReversed()]) {
      assert.deepEqual([...(classesOf(version, order).get(raw('ssn')) ?? [])].sort(), [
        'internal',
        'pii.identifier',
        'pii.name',
      ])
    }
  })

  it('are those of the same name where it is not known what columns are made of', () => {
    const version = manifests({ Email: 'pii.identifier', city: 'public' })
    assert.deepEqual(classesOf(version, null), new Map([[raw('email'), ['pii.identifier']]]))
  })
})

describe('a column whose origin is not known', () => {
  const said = (...rows: readonly (readonly [rawColumn: string, name: string])[]) =>
    ({
      rules: { sensitive: ['salary'], strategies: {} },
      pool: registryOfClasses(rows.map(([column, name]) => ({ rawColumn: column, class: name }))),
    }) as unknown as DeployDeps
  const next = manifests({ contact: 'public', email: 'pii.identifier' })
  const refused = async (platform: DeployDeps, version: ManifestSet) =>
    laundered(platform, version, null, await hiddenColumns(platform, { tenant: 'acme' }, version, null))

  it('may be of any that an input has', async () => {
    assert.deepEqual(await refused(said([raw('email'), 'pii.identifier']), next), ['contact'])
    assert.deepEqual(await refused(said([raw('pay'), 'salary']), next), ['contact', 'email'])
  })

  it('is nothing to hide where no class that hides was given to any of them', async () => {
    const elsewhere = [raw('email', 'staff'), 'pii.identifier'] as const
    assert.deepEqual(await refused(said(), next), [])
    assert.deepEqual(await refused(said([raw('email'), 'internal'], elsewhere), next), [])
    const narrow = manifests({ contact: 'public' }, ['City'])
    assert.deepEqual(await refused(said([raw('email'), 'pii.identifier']), narrow), [])
    assert.deepEqual(await refused(said([raw('city'), 'pii.identifier']), narrow), ['contact'])
  })
})

describe('a transform over a source that does not answer', () => {
  const call = { tenant: 'acme', signal: new AbortController().signal } as TenantCall
  const away = new Map<string, readonly SourceTable[] | null>([['crm', null]])
  const version = manifests({ contact: 'public' })
  const lakeSchema = {
    fields: [{ id: 1, name: 'email', type: 'string', nullable: true }],
    identifierFieldIds: [],
  }
  const platform = (isLoaded: boolean, error: Error | null = null) =>
    ({
      lake: { load: async () => (isLoaded ? { schema: lakeSchema } : null) },
      engine: {
        async run({
          tables,
        }: {
          tables: readonly { name: readonly string[]; columns: readonly { name: string }[] }[]
        }) {
          if (error !== null) throw error
          const direct = tables.flatMap(({ name, columns }) =>
            columns.map(({ name: column }) => ({ table: name, column })),
          )
          return { columns: [{ name: 'contact' }], lineage: [{ name: 'contact', direct, influence: [] }] }
        },
      },
    }) as unknown as DeployDeps

  it('is bound to what the lake has of it', async () => {
    const bound = await checkTransform(platform(true), call, version, away)
    const none = { influences: [], grouped: [], copied: null, type: 'null' }
    assert.deepEqual(bound, { origins: [{ column: 'contact', sources: [raw('email')], ...none }], given: null })
  })

  it('has unknown origins where the lake has nothing, or something older', async () => {
    const invalid = new SluiceError('INVALID_DATA', 'no such column', { code: 'query_invalid' })
    assert.equal(await checkTransform(platform(false), call, version, away), null)
    assert.equal(await checkTransform(platform(true, invalid), call, version, away), null)
    const down = new SluiceError('TRANSIENT', 'busy', { code: 'engine_busy' })
    await assert.rejects(checkTransform(platform(true, down), call, version, away), { code: 'engine_busy' })
  })
})
