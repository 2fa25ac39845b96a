/** In which order products are deployed: each after those that it names. */
import { readYaml } from '../manifest/read-yaml.ts'

export interface Ordered {
  /** namespace.name */
  readonly name: string
  /** Products that its manifests name. */
  readonly names: readonly string[]
}

/** Products that manifests name: as inputs, as those that a schedule waits for, and for their checks. Of what cannot be read, none. */
export function namedIn(texts: Readonly<Record<string, string>>): readonly string[] {
  const inputs = listIn(fieldsOf('inputs', texts)['inputs']).map((input) => objectOf(input)['product'])
  const after = listIn(objectOf(fieldsOf('compute', texts)['schedule'])['after'])
  return [...new Set([...inputs.filter(isText), ...after.filter(isText), ...usedIn(texts)])]
}

/** Products whose checks quality.yaml uses. */
export function usedIn(texts: Readonly<Record<string, string>>): readonly string[] {
  return listIn(fieldsOf('quality', texts)['uses']).flatMap((use) => {
    const { product } = objectOf(use)
    return isText(product) ? [product] : []
  })
}

const isText = (value: unknown): value is string => typeof value === 'string'

function fieldsOf(manifest: 'inputs' | 'compute' | 'quality', texts: Readonly<Record<string, string>>) {
  const reading = readYaml(manifest, Buffer.from(texts[manifest] ?? ''))
  return objectOf(reading.ok ? reading.file.value : null)
}

const listIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

/** Those that are named before those that name them, else by name. Throws where products name each other in a circle. */
export function inOrder<Product extends Ordered>(products: readonly Product[]): readonly Product[] {
  const byName = new Map(products.map((product) => [product.name, product]))
  const ordered = new Set<Product>()
  const around: Product[] = []
  const take = (product: Product): void => {
    if (ordered.has(product)) return
    const start = around.indexOf(product)
    if (start >= 0) throw circular(around.slice(start))
    around.push(product)
    for (const name of [...product.names].sort()) {
      const named = byName.get(name)
      if (named !== undefined) take(named)
    }
    around.pop()
    ordered.add(product)
  }
  for (const name of [...byName.keys()].sort()) take(byName.get(name) as Product)
  return [...ordered]
}

function circular(circle: readonly Ordered[]): Error {
  const [first, ...others] = [...circle, circle[0]].map((product) => (product as Ordered).name)
  const chain = [`${first} names ${others[0]}`, ...others.slice(1).map((name) => `which names ${name}`)]
  return Object.assign(new Error(`products name each other in a circle: ${chain.join(', ')}`), {
    remedy:
      'Take one of these names out of inputs.yaml, of schedule.after in compute.yaml or of uses in quality.yaml: none of them can come first.',
  })
}
