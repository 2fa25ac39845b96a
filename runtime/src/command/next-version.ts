/** Under which version manifests are deployed whose author named none. */
import semver from 'semver'

const FIRST = '1.0.0'

const STEPS = { compatible: 'patch', additive: 'minor', breaking: 'major' } as const

export type ChangeVerdict = keyof typeof STEPS

/**
 * The one after the highest that was ever deployed, so that no number means two things: one of a rollback's former future
 * is not taken again. What breaks readers gets a major version above that in service, as the server asks.
 */
export function nextVersion(verdict: ChangeVerdict, known: readonly string[], current: string | null): string {
  const highest = semver.rsort(known.filter((version) => semver.valid(version) !== null))[0]
  if (highest === undefined) return FIRST
  const next = incremented(highest, STEPS[verdict])
  const isAbove = verdict !== 'breaking' || current === null || semver.major(next) > semver.major(current)
  return isAbove ? next : incremented(next, 'major')
}

function incremented(version: string, step: 'patch' | 'minor' | 'major'): string {
  return semver.inc(version, step) as string
}
