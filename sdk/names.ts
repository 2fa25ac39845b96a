/** Names that a store cannot hold, told apart before anything is made under them. */
import type { Capabilities } from './capabilities.ts'
import { SluiceError } from './errors.ts'
import { tenantOf } from './scope.ts'
import type { Target } from './store.ts'

/** Whether the store declares that it can hold the name of a tenant, a domain or a product. */
export function isUsableName(name: string, { limits }: Pick<Capabilities, 'limits'>): boolean {
  return limits.namePattern === undefined || new RegExp(`^(?:${limits.namePattern})$`, 'u').test(name)
}

/** Throws INVALID_DATA `unusable_name` where a name of the target is none that `limits.namePattern` allows. */
export function checkNames(target: Target, capabilities: Pick<Capabilities, 'limits'>): void {
  const { scope, domain, product } = target
  for (const [what, name] of Object.entries({ tenant: tenantOf(scope), namespace: domain, product })) {
    if (!isUsableName(name, capabilities)) throw unusableName(what, capabilities.limits.namePattern ?? '')
  }
}

function unusableName(what: string, pattern: string): SluiceError {
  return new SluiceError('INVALID_DATA', `the store cannot hold the name of the ${what}`, {
    code: 'unusable_name',
    remedy: `Use a name of the form ${pattern}, or leave the endpoint out.`,
  })
}
