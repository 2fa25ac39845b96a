/** Checks of other products that quality.yaml uses. */
import type { CheckedFile } from './checked-file.ts'
import type { ManifestContext } from './context.ts'
import type { UseFields } from './files/quality.ts'
import { MANIFEST_LIMITS } from './files/shape.ts'
import type { Check, QualityManifest, Rule, SharedChecks, UsedChecks } from './manifest-set.ts'
import type { Finding, Path } from './problem.ts'

interface Used {
  readonly uses: readonly UsedChecks[]
  readonly checks: readonly Check[]
  readonly findings: readonly Finding[]
}

interface UseContext {
  readonly sharedChecks?: ManifestContext['sharedChecks']
  readonly own?: string
}

/**
 * @param own checks that the file has itself: a name stands for one check
 * @param misfits what of a rule this product has not, of paths that begin with nothing
 */
export function usedChecks(
  file: CheckedFile,
  own: readonly Check[],
  { sharedChecks, own: product }: UseContext,
  misfits: (rule: Rule) => readonly Finding[],
): Used {
  const items = file.items<UseFields>('uses')
  const uses = items.map(({ value: { product: of, checks: names } }) => {
    const version = sharedChecks?.get(of)?.version
    return { product: of, checks: [...names], ...(version === undefined ? {} : { version }) }
  })
  const findings: Finding[] = []
  const checks: Check[] = []
  const say = (path: Path, message: string, more: Partial<Finding> = {}) =>
    findings.push({ manifest: 'quality', path, message, ...more })
  const taken = new Set(own.map(({ name }) => name))
  for (const { path, value } of items) {
    const shared = sharedChecks?.get(value.product)
    const at = [...path, 'product']
    if (!/^[^.]+\.[^.]+$/.test(value.product)) {
      say(at, `"${value.product}" is no name of a product`, { hint: 'Write namespace.name.' })
    } else if (value.product === product) {
      say(at, 'a product has its own checks already', { hint: 'Name a product whose checks are to hold here, too.' })
    } else if (sharedChecks !== undefined && (shared === undefined || shared === null)) {
      say(at, `there is no product ${value.product} with a version in service, whose checks could be used`)
    }
    for (const [index, name] of value.checks.entries()) {
      const place = [...path, 'checks', index]
      if (taken.has(name)) say(place, `the check "${name}" stands here twice`)
      taken.add(name)
      if (!shared) continue
      const check = shared.checks.find((one) => one.name === name)
      if (check === undefined) {
        const unknown = { name, among: shared.checks.map((one) => one.name) }
        say(place, `${value.product} has no check "${name}" in service`, { unknown })
        continue
      }
      checks.push({ ...check, from: value.product })
      for (const { path: _, message, ...more } of misfits(check.rule)) {
        say(place, `the check "${name}" of ${value.product} does not fit: ${message}`, more)
      }
    }
  }
  if (own.length + checks.length > MANIFEST_LIMITS.checks) {
    say(['uses'], `with these the product has more than ${MANIFEST_LIMITS.checks} checks`)
  }
  return { uses, checks, findings }
}

/** Where a check of the manifest stands in quality.yaml, as problems name places. */
export function placeOfCheck({ checks, uses = [] }: QualityManifest, index: number): string {
  const check = checks[index]
  if (check?.from === undefined) return `checks[${index}]`
  const use = uses.findIndex(({ product, checks: names }) => product === check.from && names.includes(check.name))
  return `uses[${use}].checks[${uses[use]?.checks.indexOf(check.name)}]`
}

/** The checks of other products that manifests were read with: with these they are read again as the same. */
export function sharedIn({ checks, uses = [] }: QualityManifest): ReadonlyMap<string, SharedChecks> {
  return new Map(
    uses.map(({ product, version }) => {
      const own = checks.flatMap(({ from, ...check }) => (from === product ? [check as Check] : []))
      return [product, { checks: own, ...(version === undefined ? {} : { version }) }]
    }),
  )
}
