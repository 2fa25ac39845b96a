/** Logs of sources, as metrics: from the registry, as the last look at each has found it. */
import type pg from 'pg'
import { Gauge, type Registry } from 'prom-client'
import { CAPTURE_STATES, captureLoad } from '../registry/captures.ts'
import { FOLLOW_STATES, followLoad } from '../registry/follows.ts'
import { spoolLoad } from '../registry/log-spool.ts'

export function captureMetrics(registry: Registry, pool: pg.Pool): void {
  const bytes = new Gauge({
    name: 'sluice_log_retained_bytes',
    help: 'What sources keep of their logs for this installation, by how the logs are kept.',
    labelNames: ['state'],
    registers: [registry],
  })
  const logs = new Gauge({
    name: 'sluice_logs',
    help: 'Logs of sources by how they are kept; unreleased are those that sources keep for connections that have gone.',
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      // While the registry does not answer, what it last said stays; sluice_registry_up tells.
      const found = await captureLoad(pool).catch(() => null)
      if (found === null) return
      for (const state of CAPTURE_STATES) {
        const load = found.find((one) => one.state === state)
        this.set({ state }, load?.captures ?? 0)
        bytes.set({ state }, load?.retainedBytes ?? 0)
      }
    },
  })
  for (const state of CAPTURE_STATES) for (const metric of [logs, bytes]) metric.set({ state }, 0)
}

export function logSpoolMetrics(registry: Registry, pool: pg.Pool): void {
  const registers = [registry]
  const pieces = new Gauge({ name: 'sluice_log_spool_pieces', help: 'Pieces that they are kept in.', registers })
  const age = new Gauge({
    name: 'sluice_log_spool_age_seconds',
    help: 'How long the oldest of them has waited for the lake.',
    registers,
  })
  const full = new Gauge({
    name: 'sluice_log_spool_full',
    help: 'Connections of whose log no more is taken up: there is no room.',
    registers,
  })
  new Gauge({
    name: 'sluice_log_spool_bytes',
    help: 'Bytes of logs of sources that were taken up while the lake could not be written, and wait for it.',
    registers,
    async collect() {
      // As above: while the registry does not answer, what it last said stays.
      const found = await spoolLoad(pool).catch(() => null)
      if (found === null) return
      this.set(found.bytes)
      pieces.set(found.pieces)
      age.set(found.ageSeconds)
      full.set(found.full)
    },
  })
}

export function followMetrics(registry: Registry, pool: pg.Pool): void {
  const lag = new Gauge({
    name: 'sluice_follow_lag_seconds',
    help: 'How long the oldest change has waited that no run has taken yet, of all connections that are followed.',
    registers: [registry],
  })
  const followed = new Gauge({
    name: 'sluice_followed_connections',
    help: 'Connections with a continuous schedule: those that a runtime follows, those that none does, and those whose source could not be followed.',
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      // As above: while the registry does not answer, what it last said stays.
      const found = await followLoad(pool).catch(() => null)
      if (found === null) return
      for (const state of FOLLOW_STATES) {
        this.set({ state }, found.find((one) => one.state === state)?.connections ?? 0)
      }
      lag.set(Math.max(0, ...found.map(({ lagSeconds }) => lagSeconds)))
    },
  })
  for (const state of FOLLOW_STATES) followed.set({ state }, 0)
}
