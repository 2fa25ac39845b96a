/** Opening a store that cannot be opened, and what it says of its state. */
import { createHook } from 'node:async_hooks'
import { writeFile } from 'node:fs/promises'
import { isSluiceError } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { type Check, CheckFailure, expect } from '../check.ts'
import type { CheckContext } from '../context.ts'
import { brokenSettings, problemsOf } from '../json-schema.ts'

export const openingChecks: readonly Check[] = [
  {
    id: 5,
    name: 'open-bad-config-is-CONFIG-with-pointer',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(4)
      const { plugin, fixture } = context
      const wrong = [
        // What the schema refuses never reaches the plugin: the runtime names where it is wrong.
        ...brokenSettings(plugin.settingsSchema, fixture.settings).filter(
          ({ settings }) => problemsOf(plugin.settingsSchema, settings).length === 0,
        ),
        ...(fixture.invalid ?? []).map((settings) => ({ what: 'that the fixture calls invalid', settings })),
      ]
      const loose = brokenSettings(plugin.settingsSchema, fixture.settings).length - wrong.length
      expect(loose > 0 || wrong.length > 0, () => ({
        what: 'there are no settings that could be wrong',
        where: 'plugin.settingsSchema',
        why: 'a schema that takes anything says nothing',
        remedy: 'Write the schema of the settings, closed by additionalProperties: false.',
      }))
      for (const { what, settings } of wrong) {
        const refused = await refusalOf(context, { settings })
        const { pointer } = refused?.details ?? {}
        const isRight = refused?.kind === 'CONFIG' && typeof pointer === 'string' && /^(\/.*)?$/.test(pointer)
        expect(isRight, () => ({
          what: `settings ${what} ${refused ? `were refused as ${refused.kind} ${refused.code} without a pointer` : 'were accepted'}`,
          where: 'plugin.open',
          why: 'whoever writes the settings has to be told which of them is wrong',
          remedy: 'Throw CONFIG with details.pointer, a JSON pointer into the settings; check them before connecting.',
        }))
      }
      await dataset.expectRows('whoever opens with wrong settings touches nothing')
    },
  },
  {
    id: 6,
    name: 'open-unreachable-is-TRANSIENT-within-deadline',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(4)
      const { fixture } = context
      if ('unreachable' in fixture) {
        const refused = await refusalOf(context, { settings: fixture.unreachable })
        expect(refused?.kind === 'TRANSIENT', () =>
          unreachable(refused ? `${refused.kind} ${refused.code}` : 'nothing'),
        )
      } else {
        await expectWorkingOrRefused(context)
      }
      await dataset.expectRows('a store that can be reached is served as before')
    },
  },
  {
    id: 7,
    name: 'health-does-no-io',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(4)
      const before = context.host.met.length
      const started: string[] = []
      const watch = createHook({ init: (_, type) => void (QUIET.has(type) || started.push(type)) }).enable()
      const health: unknown = context.store.health()
      watch.disable()
      const { status } = (health ?? {}) as { readonly status?: unknown }
      const isHealth = ['ok', 'degraded', 'down'].includes(String(status)) && !(health instanceof Promise)
      expect(isHealth && started.length === 0 && context.host.met.length === before, () => ({
        what: isHealth ? `health began ${started.join(', ') || 'a step of a write'}` : 'health gave no status at once',
        where: 'store.health',
        why: 'it is asked at every heartbeat, also when the store hangs',
        remedy: 'Remember how the last calls went, and return that.',
      }))
      await dataset.expectRows('and the store is as healthy as it says')
    },
  },
  {
    id: 8,
    name: 'probe-detects-privilege-that-bypasses-rls',
    level: 'core',
    async run(context) {
      await context.filled(4)
      const good = await context.store.probe(callDeadline())
      const isTold = good.checks.length > 0 && good.checks.every(({ name, message }) => name !== '' && message !== '')
      expect(good.ok && isTold && good.checks.every(({ ok }) => ok), () =>
        wrongProbe('a store that is in order is not ok, or says nothing'),
      )
    },
  },
  {
    id: 181,
    name: 'probe-finds-a-login-that-walls-do-not-bind',
    level: 'core',
    lacks: (fixture) => ('bypassing' in fixture ? null : 'the fixture names no login that could pass by the walls'),
    async run(context) {
      await context.filled(4)
      const outcome = await context.openAnother({ settings: context.fixture.bypassing }).then(
        ({ store }) => store.probe(callDeadline()),
        (error: unknown) => (isSluiceError(error) ? null : Promise.reject(error)),
      )
      expect(outcome === null || (!outcome.ok && outcome.checks.some(({ ok }) => !ok)), () =>
        wrongProbe('a login that row security does not bind is found in order'),
      )
    },
  },
]

/** Bookkeeping of promises, and none of I/O. */
const QUIET = new Set(['PROMISE', 'TickObject', 'Microtask', 'AsyncGenerator'])

async function refusalOf(context: CheckContext, other: { readonly settings: unknown }) {
  try {
    const { store } = await context.openAnother(other)
    await store.close()
    return null
  } catch (error) {
    if (isSluiceError(error)) return error
    throw new CheckFailure(
      {
        what: `open threw something other than a SluiceError: ${String(error)}`,
        where: 'plugin.open',
        why: 'the runtime decides by kind alone whether to start',
        remedy: 'Check the settings, and wrap what the driver throws.',
      },
      error,
    )
  }
}

/** Without a server there is the folder: where it cannot be used, the store says so or can do without. */
async function expectWorkingOrRefused(context: CheckContext): Promise<void> {
  const file = context.scratch('no-folder')
  await writeFile(file, '')
  const outcome = await context.openAnother({ stateDirectory: `${file}/below` }).then(
    ({ store }) => store.probe(callDeadline()),
    (error: unknown) => error,
  )
  if (isSluiceError(outcome)) {
    expect(outcome.kind === 'TRANSIENT' || outcome.kind === 'CONFIG', () =>
      unreachable(`${outcome.kind} ${outcome.code}`),
    )
    return
  }
  const isReport = typeof outcome === 'object' && outcome !== null && 'checks' in outcome
  expect(isReport, () => unreachable(String(outcome)))
}

function unreachable(thrown: string) {
  return {
    what: `opening a store that nobody answers for threw ${thrown}`,
    where: 'plugin.open',
    why: 'the runtime tries again later what is TRANSIENT, and starts without that store',
    remedy: 'Connect within a time-out, and throw TRANSIENT where nobody answers.',
  }
}

function wrongProbe(what: string) {
  return {
    what,
    where: 'store.probe',
    why: 'walls that the login can pass by are none, and only the probe tells before rows are written',
    remedy: 'Ask the store for the login’s rights; name each thing that was looked at.',
  }
}
