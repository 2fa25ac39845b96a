/** Refusals that several operations of the Iceberg catalog share. */
import { SluiceError } from '@sluice/sdk'

export function namespaceNotFound(): SluiceError {
  return new SluiceError('INVALID_DATA', 'there is no such namespace', {
    code: 'catalog_namespace_not_found',
    remedy: 'List the namespaces; "sandbox" is made by creating it.',
  })
}

export function tableNotFound(): SluiceError {
  return new SluiceError('INVALID_DATA', 'there is no such table', {
    code: 'catalog_table_not_found',
    remedy: 'List the tables; a product has one as soon as it has been materialized.',
  })
}
