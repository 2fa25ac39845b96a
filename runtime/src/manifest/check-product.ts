import type { CheckedFile, Draft } from './checked-file.ts'
import type { ManifestContext } from './context.ts'
import { parseDuration } from './durations.ts'
import type { ProductFile } from './files/product.ts'
import type { ProductManifest } from './manifest-set.ts'
import { nameRefusal, nameSuggestion } from './names.ts'
import type { Finding } from './problem.ts'

/** product.yaml with its defaults; its name must be the registered one. */
export function readProduct(file: CheckedFile, context: ManifestContext): Draft<ProductManifest> {
  const name = file.get<string>('name')
  const domain = file.get<string>('namespace')
  const archetype = file.get<ProductFile['archetype']>('archetype')
  const findings = [
    ...nameFindings('name', name, context.product.name),
    ...nameFindings('namespace', domain, context.product.domain),
  ]
  const classification = file.get<ProductManifest['classification']>('classification')
  // A class that cannot be read is not the default: nothing may be concluded from it.
  const misread = classification === undefined && file.raw('classification') !== undefined
  if (name === undefined || domain === undefined || archetype === undefined || misread) return { value: null, findings }
  const owner = file.get<NonNullable<ProductFile['owner']>>('owner')
  const access = file.get<NonNullable<ProductFile['access']>>('access')
  const slo = file.get<NonNullable<ProductFile['slo']>>('slo')
  const value: ProductManifest = {
    name,
    domain,
    archetype,
    description: file.get<string>('description') ?? '',
    classification: classification ?? 'internal',
    owner: { team: owner?.team ?? null, email: owner?.email ?? null },
    tags: file.get<readonly string[]>('tags') ?? [],
    access: { teams: access?.teams ?? [], users: access?.users ?? [] },
    slo: {
      freshnessMs: slo?.freshness === undefined ? null : parseDuration(slo.freshness),
      availabilityPercent: slo?.availability ?? null,
    },
  }
  return { value, findings }
}

function nameFindings(
  field: 'name' | 'namespace',
  written: string | undefined,
  registered: string,
): readonly Finding[] {
  if (written === undefined) return []
  const at = { manifest: 'product', path: [field] } as const
  const refusal = nameRefusal(written, field)
  if (refusal !== null) {
    const suggestion = nameSuggestion(written)
    return [
      { ...at, message: `the ${field} ${refusal}`, ...(suggestion === null ? {} : { hint: `Write ${suggestion}.` }) },
    ]
  }
  if (written === registered) return []
  return [
    {
      ...at,
      message: `the product is registered with the ${field} ${registered}, not ${written}`,
      hint: `Write ${registered}, or register another product.`,
    },
  ]
}
