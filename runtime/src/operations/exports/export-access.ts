/** Whether an export may still be given: each table that it was read from is judged as it would be read now. */

import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { rowMasks } from '../../policy/made-masks.ts'
import { findConnection } from '../../registry/connections.ts'
import type { Export, ExportedTable } from '../../registry/exports.ts'
import { findEpoch } from '../../registry/materializations.ts'
import { findTenant } from '../../registry/tenants.ts'
import { findVersion } from '../../registry/versions.ts'
import { readsSandbox, type Visible } from '../queries/asked-query.ts'
import { isPermitted } from '../queries/held-rights.ts'
import { mayReadRaw } from '../rights/raw-rights.ts'
import { asMadeBy } from '../served/as-made-by.ts'
import { accessTo, refuseStaleMask } from '../served/served-product.ts'
import type { ExportsDeps } from './deps.ts'

/** Throws INVALID_DATA `export_unsupported` of rows that could not be judged later. */
export async function exportedTables(
  { pool }: Pick<ExportsDeps, 'pool'>,
  visible: readonly Visible[],
): Promise<readonly ExportedTable[]> {
  return Promise.all(
    visible.map(async ({ name, origin, maskedColumns, made }): Promise<ExportedTable> => {
      if (origin === undefined) throw unsupported(name)
      if (origin.type !== 'product') return { ...origin, name }
      const epoch = made === undefined ? null : await findEpoch(pool, origin.productId, made.epoch)
      if (epoch === null || made === undefined) throw unsupported(name)
      return { ...origin, name, epoch: made.epoch, version: epoch.version, maskedColumns, masks: epoch.masks }
    }),
  )
}

/** By the rights of now of whoever asked for it, as his token said then who he is. Throws PERMISSION `export_not_permitted`. */
export async function requireExportable(platform: ExportsDeps, asked: Export): Promise<void> {
  const { tenant, principal, tables } = asked
  const call: Pick<TenantCall, 'tenant' | 'principal'> = { tenant, principal }
  if ((await findTenant(platform.pool, tenant))?.status !== 'active') throw notPermitted('its tenant is not active')
  for (const table of tables) {
    if (!(await mayRead(platform, call, table)))
      throw notPermitted('rows of it may not be shown to its author any more')
  }
}

async function mayRead(
  platform: ExportsDeps,
  call: Pick<TenantCall, 'tenant' | 'principal'>,
  table: ExportedTable,
): Promise<boolean> {
  const { pool, served, rules } = platform
  const { tenant, principal } = call
  switch (table.type) {
    case 'sandbox':
      return readsSandbox(principal)
    case 'raw': {
      const connection = await findConnection(pool, tenant, table.connectionId)
      return connection !== null && (await mayReadRaw(platform, call, connection, table.table))
    }
    case 'product':
      return isPermitted(async () => {
        const product = await served.find(tenant, table.productId)
        const made = await findVersion<ManifestSet>(pool, product.id, table.version)
        if (made === null) throw notPermitted('the version is gone that made its rows')
        const then = asMadeBy(product, made.normalised, rules)
        // Of the rows in the file: whoever would be given others today is not given these unless they hide as much.
        const { masks } = accessTo(then, principal, rules, () => true)
        const { maskedColumns, variant, epoch } = table
        const kept = (await findEpoch(pool, product.id, epoch))?.masks ?? table.masks ?? null
        const ofRows = { maskedColumns: { [variant]: maskedColumns }, masks: kept }
        refuseStaleMask(then, masks, rowMasks(ofRows, variant, made.normalised.output.columns))
      })
  }
}

function notPermitted(why: string): SluiceError {
  return new SluiceError('PERMISSION', `the export is not given any more: ${why}`, {
    code: 'export_not_permitted',
    remedy: 'Ask for the right again where it is still needed, then make another export.',
  })
}

/** Of what could not be judged again later. */
export function unsupported(name: string): SluiceError {
  return new SluiceError('INVALID_DATA', `${name} cannot be exported`, {
    code: 'export_unsupported',
    remedy: 'Export products; rows that checks put aside, and descriptions of tables, are read by queries.',
  })
}
