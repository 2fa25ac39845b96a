/** Refusals that several operations of the Iceberg catalog share. */
import { SluiceError } from '@sluice/sdk'

export function namespaceNotFound(): SluiceError {
  return new SluiceError('INVALID_DATA', 'there is no such namespace', {
    code: 'catalog_namespace_not_found',
    remedy: 'List the namespaces; "sandbox" is made by creating it.',
  })
}

/** Of a product that the caller may read: for clients no table, which is what they act on; for people the reason. */
export function tableNotMade({ domain, name }: { readonly domain: string; readonly name: string }): SluiceError {
  return new SluiceError('INVALID_DATA', `${domain}.${name} has not been materialized yet`, {
    code: 'catalog_table_not_found',
    remedy: 'Sync its connections, and wait until the run has succeeded.',
  })
}

export function tableNotFound(): SluiceError {
  return new SluiceError('INVALID_DATA', 'there is no such table', {
    code: 'catalog_table_not_found',
    remedy: 'List the tables; a product has one as soon as it has been materialized.',
  })
}
