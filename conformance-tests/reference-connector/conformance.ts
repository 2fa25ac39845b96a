import type { ConnectorState } from '@sluice/sdk'
import type { SourceFixture } from '../connector-fixture.ts'
import type { LoggedSource } from '../log-fixture.ts'
import { MemorySource } from './memory-source.ts'
import { LEFT_OUT_CHARACTERS } from './memory-write.ts'
import { PORT, type SourceSettings } from './settings.ts'

/** A table that its owner has made, with what the source itself makes of numbers and times. */
const EXPECTED: NonNullable<SourceFixture['expected']> = [
  {
    table: {
      name: 'made_by_its_owner',
      columns: [
        { name: 'day', type: 'date', nullable: false },
        { name: 'total', type: 'decimal(38,2)', nullable: true },
      ],
      primaryKey: ['day'],
    },
    rows: [
      ['1969-12-31', '123456789012345678901234567890123456.78'],
      ['2024-02-29', null],
    ],
  },
]

export async function start(): Promise<SourceFixture & { readonly source: MemorySource }> {
  const source = new MemorySource()
  const settings: SourceSettings = {
    source,
    host: 'source.test',
    port: PORT,
    user: 'reader',
    password: 'open sesame 51c9',
    verify: false,
  }
  for (const { table, rows } of EXPECTED) {
    source.create(table)
    source.put(table, rows)
  }
  return {
    source,
    settings,
    steps: ['dns', 'tcp', 'tls', 'auth', 'privileges'],
    expected: EXPECTED,
    broken: {
      dns: { ...settings, host: 'absent.source.test' },
      tcp: { ...settings, port: 9 },
      tls: { ...settings, verify: true },
      auth: { ...settings, password: 'open barley 77e2' },
      privileges: { ...settings, user: 'sees_nothing' },
    },
    schema: 'memory',
    names: ['source.test'],
    create: async (table) => source.create(table),
    put: async (table, rows) => source.put(table, rows),
    remove: async (table, rows) => source.remove(table, rows),
    alter: async (table, next) => source.alter(table, next),
    drop: async (table) => source.drop(table),
    hold: async (table, rows) => {
      const transaction = source.begin()
      return async () => source.put(table, rows, transaction)
    },
    putUnfit: async (table, count) => source.putUnfit(table, count),
    putWithout: async (table, row) => {
      source.putWithout(table, row, 'amount')
      return 'amount'
    },
    refuse: async () => {
      source.refusesLogins = true
      return async () => {
        source.refusesLogins = false
      }
    },
    stall: async () => {
      const [asked, answers] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      source.stalled = () => {
        asked.resolve()
        return answers.promise
      }
      return {
        reached: asked.promise,
        async release() {
          source.stalled = null
          answers.resolve()
        },
      }
    },
    digest: async () => source.digest(),
    sessions: async () => source.sessions,
    future: (state: ConnectorState) =>
      state.value['cursor'] === null
        ? null
        : { ...state, value: { ...state.value, from: '9000-01-01T00:00:00.000000Z' } },
    log: loggedSource(source),
    stop: async () => {
      for (const { table } of EXPECTED) source.drop(table)
    },
  }
}

const TRAFFIC_BYTES = 1 << 20

function loggedSource(source: MemorySource): LoggedSource {
  const { log } = source
  return {
    begin: async () => source.transaction(),
    truncates: true,
    leftOut: (index) => `${index} `.padEnd(LEFT_OUT_CHARACTERS, 'long '),
    addFilled: async (table, column, value) =>
      source.alter(table, { ...table, columns: [...table.columns, column] }, { [column.name]: value }),
    createUntold: async (table) => source.create(table, false),
    places: async () => log.captures,
    lose: async () => log.lose(),
    traffic: async () => {
      log.append([], TRAFFIC_BYTES)
      return TRAFFIC_BYTES
    },
    press: async () => {
      log.limitBytes = TRAFFIC_BYTES
      log.append([], Math.ceil(TRAFFIC_BYTES * 0.9))
      return async () => {
        log.limitBytes = null
      }
    },
  }
}
