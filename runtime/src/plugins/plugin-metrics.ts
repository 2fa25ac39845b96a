/**
 * What plugins count and measure, in the registry that /metrics shows. Their names and labels are bounded here: a
 * plugin that makes ever new ones must not fill the memory of the process, nor of whoever scrapes it.
 */
import type { Metrics } from '@sluice/sdk'
import { Counter, Histogram, type Registry } from 'prom-client'

const NAME = /^[a-z][a-z0-9_]{0,63}$/
const LABEL = /^[a-z][a-z0-9_]{0,31}$/
const MAX_NAMES = 100
const MAX_LABELS = 4
const MAX_VALUE_LENGTH = 64
/** Series of one metric; what comes after them is counted under `other`. */
const MAX_SERIES = 200
const OTHER = 'other'
/** Labels that are set here or mean something to Prometheus. */
const RESERVED = new Set(['plugin', 'le', 'quantile'])

type Labels = Readonly<Record<string, string>>

type Kind = 'counter' | 'histogram'

interface Family {
  readonly kind: Kind
  /** Those of the first use; others are dropped. */
  readonly labelNames: readonly string[]
  readonly series: Set<string>
  add(labels: Record<string, string>, value: number): void
}

/** One for the process; `of` gives each plugin its own view, under its name. */
export class PluginMetrics {
  readonly #registry: Registry
  readonly #families = new Map<string, Family>()

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** Never throws: what has no valid name, or is one name too many, is not counted. */
  of(plugin: string): Metrics {
    return {
      count: (name, by = 1, labels = {}) => {
        if (by >= 0) this.#add(plugin, 'counter', name, by, labels)
      },
      observe: (name, value, labels = {}) => this.#add(plugin, 'histogram', name, value, labels),
    }
  }

  #add(plugin: string, kind: Kind, name: string, value: number, labels: Labels): void {
    if (!NAME.test(name) || !Number.isFinite(value)) return
    const full = kind === 'counter' ? `sluice_plugin_${name.replace(/_total$/, '')}_total` : `sluice_plugin_${name}`
    const family = this.#families.get(full) ?? this.#begin(kind, full, labels)
    if (family?.kind === kind) family.add(boundedLabels(family, plugin, labels), value)
  }

  #begin(kind: Kind, name: string, labels: Labels): Family | null {
    if (this.#families.size >= MAX_NAMES) return null
    const labelNames = Object.keys(labels)
      .filter((label) => LABEL.test(label) && !RESERVED.has(label))
      .slice(0, MAX_LABELS)
    const add = this.#register(kind, name, ['plugin', ...labelNames])
    const family = { kind, labelNames, series: new Set<string>(), add }
    this.#families.set(name, family)
    return family
  }

  #register(kind: Kind, name: string, labelNames: string[]): Family['add'] {
    const registers = [this.#registry]
    if (kind === 'counter') {
      const counter = new Counter({ name, help: 'Counted by plugins.', labelNames, registers })
      return (labels, value) => counter.inc(labels, value)
    }
    const histogram = new Histogram({ name, help: 'Measured by plugins.', labelNames, registers })
    return (labels, value) => histogram.observe(labels, value)
  }
}

function boundedLabels({ labelNames, series }: Family, plugin: string, labels: Labels): Record<string, string> {
  const values = labelNames.map((label) => String(labels[label] ?? '').slice(0, MAX_VALUE_LENGTH))
  const key = JSON.stringify([plugin, ...values])
  const isKnown = series.has(key) || series.size < MAX_SERIES
  if (isKnown) series.add(key)
  return {
    plugin,
    ...Object.fromEntries(labelNames.map((label, index) => [label, isKnown ? (values[index] as string) : OTHER])),
  }
}
