/** Which products are made anew together, and in which order: each after those that it is made of. */
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { PRODUCTS } from '../registry/product-sources.ts'
import type { Product } from '../registry/products.ts'
import { fullNameOf } from './product-outcome.ts'

export interface DeployedProduct {
  readonly product: Product
  readonly manifests: ManifestSet
}

export interface WaveMember extends DeployedProduct {
  /** Names of members that it is made of, without those that it takes as they are. */
  readonly upstream: readonly string[]
}

/**
 * These products, and all that follow them: those of `readers` that are made of one of them, be it through others, and that
 * are made when their inputs have new rows. Each stands behind every one that it is made of.
 *
 * @param readers products in service: at least all that are made of these, be it through others
 */
export function waveOf(first: readonly DeployedProduct[], readers: readonly DeployedProduct[]): readonly WaveMember[] {
  const followers = readers.filter(({ manifests }) => manifests.compute.trigger === 'on_ingestion')
  const members = new Map(first.map((one) => [fullNameOf(one.product), one]))
  // Grows while it is gone through.
  for (const name of members.keys()) {
    for (const reader of followers) {
      const key = fullNameOf(reader.product)
      if (!members.has(key) && inputsOf(reader).some(({ table }) => table === name)) members.set(key, reader)
    }
  }
  const ordered: WaveMember[] = []
  const placed = new Set<string>()
  const place = (name: string, above: ReadonlySet<string>): void => {
    const member = members.get(name)
    // A circle is refused when it would be deployed; in one of an older registry nobody is first.
    if (member === undefined || placed.has(name) || above.has(name)) return
    const inputs = inputsOf(member).filter(({ table }) => members.has(table))
    for (const { table } of inputs) place(table, new Set([...above, name]))
    placed.add(name)
    const upstream = inputs.filter(({ epoch }) => epoch !== 'latest').map(({ table }) => table)
    ordered.push({ ...member, upstream })
  }
  for (const name of members.keys()) place(name, new Set())
  return ordered
}

function inputsOf({ manifests }: DeployedProduct) {
  return manifests.inputs.filter(({ connection }) => connection === PRODUCTS)
}
