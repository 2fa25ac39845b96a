/** A product that is made of another one, with its columns and their classes. */
import type { LogicalType } from '@sluice/sdk'
import type { DraftColumn, ProductDraft } from './product-draft.ts'
import { namesOfFolder } from './product-names.ts'
import { keyOf, proposedChecks, proposedEndpoints, proposedRole, type StoreOnOffer } from './proposed-parts.ts'

/** As the server shows a product. */
export interface ServedProduct {
  readonly name: string
  readonly namespace: string
  readonly classification: string
  readonly current_version: string | null
  readonly schema: readonly ServedColumn[]
}

export interface ServedColumn {
  readonly name: string
  readonly type: string
  readonly role: string | null
  readonly classification: string
  readonly nullable: boolean
  readonly description?: string | null
}

/** @param namespace as asked for; null: as the folder says, else that of the other */
export function draftOfProduct(
  served: ServedProduct,
  folder: string,
  namespace: string | null,
  stores: readonly StoreOnOffer[],
): ProductDraft {
  const full = `${served.namespace}.${served.name}`
  if (served.current_version === null || served.schema.length === 0) {
    throw new Error(`${full} is not in service: there is nothing yet to be made of it`)
  }
  const columns = served.schema.map(columnOf)
  const names = namesOfFolder(folder)
  const own = { namespace: namespace ?? names.namespace ?? served.namespace, name: names.name ?? `${served.name}_view` }
  const name = own.namespace === served.namespace && own.name === served.name ? `${own.name}_view` : own.name
  const { endpoints, notes } = proposedEndpoints(name, columns, stores)
  return {
    product: {
      name,
      namespace: own.namespace,
      archetype: 'consumer_aligned',
      description: '',
      // It may not be open to more readers than what it is made of.
      classification: served.classification,
    },
    inputs: [{ name: served.name === 'this' ? 'source' : served.name.slice(0, 63), product: full }],
    inputNotes: [`Read as whoever deploys is shown it: what is masked for them is masked for all readers.`],
    columns,
    columnNotes: keyOf(columns).length > 0 ? [] : [`${full} has no key.`],
    output: { write_mode: keyOf(columns).length > 0 ? 'merge' : 'replace' },
    quality: proposedChecks(columns),
    endpoints,
    endpointNotes: notes,
    compute: { engine: 'auto', trigger: 'on_ingestion' },
  }
}

function columnOf({ name, type, role, classification, nullable, description }: ServedColumn): DraftColumn {
  const isPublic = classification === 'public'
  const isKey = role === 'identity'
  return {
    name,
    type,
    role: role ?? proposedRole(name, type as LogicalType),
    // A mask may leave nothing of a value.
    ...(isKey || (!nullable && isPublic) ? { nullable: false } : {}),
    ...(isPublic ? {} : { classification }),
    ...(description ? { description } : {}),
  }
}
