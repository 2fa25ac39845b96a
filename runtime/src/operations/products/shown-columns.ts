/** The columns of the version in service, each with how it is masked for the caller: for the product's page, and all that is made of it. */
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { ReadAccess } from '../served/served-product.ts'

/** @param access null: the caller may not read the product, and no mask is told */
export function shownColumns({ output }: ManifestSet, access: ReadAccess | null) {
  const masks = new Map(access?.masks.map(({ column, strategy }) => [column, strategy]))
  return output.columns.map(({ name, type, role, classification, nullable, description }) => ({
    name,
    type,
    role,
    classification,
    nullable,
    description,
    mask: masks.get(name) ?? null,
  }))
}
