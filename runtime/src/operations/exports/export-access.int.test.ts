/** Whether a file may still be given, by what its rows were read from: also once that is gone. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { RecordingLogger } from '@sluice/conformance'
import type { MaskStrategy } from '../../config.ts'
import type { Principal } from '../../flow.ts'
import type { Export } from '../../registry/exports.ts'
import { findEpoch } from '../../registry/materializations.ts'
import { ANN, startTestRegistry } from '../../registry/testing.ts'
import type { Visible } from '../queries/asked-query.ts'
import { ServedProducts } from '../served/served-products.ts'
import type { ExportsDeps } from './deps.ts'
import { exportedTables, requireExportable } from './export-access.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const COLUMNS = [{ name: 'phone', type: 'string', nullable: true, classification: 'pii.phone' }]

/** Of a product whose rows are masked so. */
async function exported(mask: MaskStrategy): Promise<Pick<Export, 'tenant' | 'tables'>> {
  const { id, tenant } = await registry.product(await registry.tenant())
  const normalised = {
    product: { classification: 'internal' },
    output: { columns: COLUMNS },
    serving: { endpoints: [] },
  }
  await pool.query(
    `insert into product_versions (product_id, version, manifests, normalised, digest, deployed_by)
     values ($1, '1.0.0', '{}', $2, 'd', '{}')`,
    [id, JSON.stringify(normalised)],
  )
  await pool.query("update products set current_version = '1.0.0', status = 'deployed' where id = $1", [id])
  for (const epoch of [1, 2]) {
    await pool.query(
      `insert into materializations (id, tenant, product_id, epoch, kind, state, version, digest, snapshots, masked_columns, masks,
         committed_at)
       values ($1, $2, $3, $4::int, 'materialize', 'committed', '1.0.0', 'd', '{"clear": "1", "masked": "2"}', $5, $6,
         now() + $4::int * interval '1 second')`,
      [`${id}-${epoch}`, tenant, id, epoch, { clear: [], masked: ['phone'] }, { clear: {}, masked: { phone: mask } }],
    )
  }
  const origin = { type: 'product', productId: id, variant: 'masked' }
  const read = { name: 'crm.people', origin, maskedColumns: ['phone'], made: { epoch: 1, readAt: '' } }
  const tables = await exportedTables({ pool }, [read as unknown as Visible])
  // As exports keep it.
  return { tenant, tables: JSON.parse(JSON.stringify(tables)) }
}

/** Whether the file is given where phones are masked so now. */
async function isGiven({ tenant, tables }: Pick<Export, 'tenant' | 'tables'>, now: MaskStrategy): Promise<boolean> {
  const rules = { sensitive: [], strategies: { 'pii.phone': now } }
  const plugins = { serving: () => undefined }
  const logger = new RecordingLogger()
  const deps = { pool, plugins, rules, logger, noteMasks: async () => 'noted', hearsChanges: () => true }
  const served = new ServedProducts(deps as unknown as ConstructorParameters<typeof ServedProducts>[0])
  const principal: Principal = {
    ...{ ...ANN, tenant, groups: [], isAdmin: false, isDeveloper: false, isViewer: true },
    ...{ claimedClearance: null, email: null, tokenExpiresAtMs: Number.MAX_SAFE_INTEGER, tokenIssuedAtMs: 0 },
  }
  const asked = { tenant, tables, principal } as unknown as Export
  return requireExportable({ pool, served, rules } as unknown as ExportsDeps, asked).then(
    () => true,
    (error: unknown) => {
      assert.match(String((error as { readonly code?: string }).code), /^(mask_pending|export_not_permitted)$/)
      return false
    },
  )
}

it('a file is given by the masks of its rows, also once their epoch is gone', async () => {
  for (const mask of ['partial', 'redact'] as const) {
    const asked = await exported(mask)
    const given = async () => [await isGiven(asked, 'partial'), await isGiven(asked, 'redact')]
    const expected = [true, mask === 'redact']
    assert.deepEqual(await given(), expected)
    const [table] = asked.tables
    assert.ok(table?.type === 'product')
    await pool.query('delete from materializations where product_id = $1 and epoch = 1', [table.productId])
    assert.equal(await findEpoch(pool, table.productId, 1), null)
    assert.deepEqual(await given(), expected, 'its epoch is gone')
  }
})
