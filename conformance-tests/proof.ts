/** Which lines of a plugin's capability table a run has proved. */
import {
  type CertificateBody,
  type CertifiedDependencies,
  type ConnectorPlugin,
  capabilityNames,
  SDK_VERSION,
  type ServingPlugin,
} from '@sluice/sdk'
import type { PluginPackage } from './plugin-package.ts'
import { DECLARED_OPERATION } from './requirements.ts'
import { countsOf, type RunRecord } from './run-record.ts'

/** What a check needs to be declared before it says anything. */
export interface CheckNeeds {
  readonly name: string
  readonly requires?: readonly { readonly name: string }[]
}

/**
 * Nothing, while a check that every plugin has to pass fails. Else each declared line that no failing check is about,
 * and that a passing one is about, unless no check is about that line alone: such lines (operators of filters, the
 * commit class) are used by the general checks wherever they are declared.
 */
export function provedCapabilities(
  plugin: ServingPlugin | ConnectorPlugin,
  run: RunRecord,
  checks: readonly CheckNeeds[],
): readonly string[] {
  const needs = new Map(checks.map(({ name, requires = [] }) => [name, requires.map((one) => one.name)] as const))
  const about = (status: 'passed' | 'failed') =>
    run.checks.filter((check) => check.status === status).map(({ name }) => needs.get(name) ?? [])
  const failed = about('failed')
  if (failed.some((names) => names.length === 0)) return []
  const tried = new Set(about('passed').flat())
  const refuted = new Set(failed.flat())
  const special = new Set([...needs.values()].flat())
  return capabilityNames(plugin).filter((name) => {
    // What is tried of one declared operation is tried of all.
    const line = name.startsWith(`${DECLARED_OPERATION.name} `) ? DECLARED_OPERATION.name : name
    return !refuted.has(line) && (tried.has(line) || !special.has(line))
  })
}

export interface Proof {
  readonly plugin: ServingPlugin | ConnectorPlugin
  readonly package: PluginPackage
  readonly sha256: string
  readonly run: RunRecord
  readonly proved: readonly string[]
  /** Absent where it is not known. */
  readonly dependencies?: CertifiedDependencies
  readonly signer?: string
}

export function certificateBody({ plugin, package: from, sha256, run, ...said }: Proof): CertificateBody {
  const { kind, type, name, version } = plugin
  const { proved, dependencies, signer } = said
  return {
    plugin: { kind, type, name, version },
    package: { name: from.name, version: from.version, sha256 },
    date: run.date,
    ...(run.server === undefined ? {} : { server: run.server }),
    ...(dependencies === undefined ? {} : { dependencies }),
    ...(signer === undefined ? {} : { signer }),
    sdk: SDK_VERSION,
    suite: run.suite,
    level: run.level,
    seed: run.seed,
    checks: { ...countsOf(run.checks) },
    proved,
    waived: run.checks.filter(({ status }) => status === 'waived').map(({ name: waived }) => waived),
    killRate: { caught: run.killRate?.caught ?? 0, of: run.killRate?.of ?? 0 },
  }
}
