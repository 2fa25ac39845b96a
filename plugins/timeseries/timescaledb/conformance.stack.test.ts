import { test } from 'node:test'
import { testServingStore } from '@sluice/conformance'
import * as fixture from './conformance.ts'
import plugin from './index.ts'

if (process.env.SLUICE_TEST_TIMESCALE_URL === undefined) {
  test('TimescaleDB', { skip: 'SLUICE_TEST_TIMESCALE_URL names no server with TimescaleDB' }, () => {})
} else testServingStore({ plugin, ...fixture, level: 'full' })
