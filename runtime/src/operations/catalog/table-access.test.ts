import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { CatalogDeps } from './deps.ts'
import { recordRead } from './table-access.ts'

/** Of all that a runtime has, only what looks products up, which fails with that. */
function platformWhere(kind: 'INVALID_DATA' | 'TRANSIENT'): CatalogDeps {
  const error = new SluiceError(kind, 'failed', { code: kind === 'TRANSIENT' ? 'database_unavailable' : 'not_found' })
  return { served: { find: () => Promise.reject(error) } } as unknown as CatalogDeps
}

describe('recordRead', () => {
  const table = { catalog: 'lakehouse_acme', schema: 'crm', table: 'people' }
  const call = { tenant: 'acme' } as TenantCall

  it('fails where it cannot be known whether the read has to be on record', async () => {
    await assert.rejects(recordRead(platformWhere('TRANSIENT'), call, table), { kind: 'TRANSIENT' })
  })

  it('records nothing of a plain table', async () => {
    await recordRead(platformWhere('INVALID_DATA'), call, table)
  })
})
