// files.mjs - sandbox.files of the npm package, and signed addresses.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { e2b } from './kit.mjs'

const { Sandbox, NotFoundError, FilesystemEventType } = e2b
let sandbox
before(async () => { sandbox = await Sandbox.create() })
after(async () => { await sandbox.kill() })

test('text and bytes come back as they were written', async () => {
  assert.equal((await sandbox.files.write('a/hällo.txt', 'wörld')).path, '/home/user/a/hällo.txt')
  assert.equal(await sandbox.files.read('a/hällo.txt'), 'wörld')
  const data = Uint8Array.from({ length: 3000000 }, (_, i) => i % 251)
  await sandbox.files.write('bytes', data.buffer)
  assert.deepEqual(Buffer.from(await sandbox.files.read('bytes', { format: 'bytes' })), Buffer.from(data))
  await assert.rejects(sandbox.files.read('missing'), NotFoundError)
})

test('many files in one request', async () => {
  const files = Array.from({ length: 100 }, (_, i) => ({ path: `many/${i}`, data: `text ${i}` }))
  const infos = await sandbox.files.write(files)
  assert.deepEqual(infos.map((info) => info.path), files.map((file) => `/home/user/${file.path}`))
  assert.equal(await sandbox.files.read('many/99'), 'text 99')
})

test('folders, names, information', async () => {
  assert.equal(await sandbox.files.makeDir('d/e'), true)
  assert.equal(await sandbox.files.makeDir('d/e'), false)
  await sandbox.files.write('d/f', 'x')
  assert.deepEqual((await sandbox.files.list('d')).map((one) => [one.name, one.type]), [['e', 'dir'], ['f', 'file']])
  await sandbox.files.rename('d/f', 'd/g')
  assert.equal(await sandbox.files.exists('d/f'), false)
  assert.equal(await sandbox.files.exists('d/g'), true)
  await sandbox.files.remove('d')
  await assert.rejects(sandbox.files.list('d'), NotFoundError)
})

test('changes of a folder are told', async () => {
  await sandbox.files.makeDir('w')
  let handle
  const written = new Promise((resolve) => {
    handle = sandbox.files.watchDir('w', (event) => event.type === FilesystemEventType.WRITE && resolve(event.name))
  })
  handle = await handle
  await sandbox.files.write('w/f.txt', 'x')
  assert.equal(await written, 'f.txt')
  await handle.stop()
})

test('signed addresses', async () => {
  await sandbox.files.write('s.txt', 'signed')
  const url = await sandbox.downloadUrl('s.txt', { user: 'user', useSignatureExpiration: 100 })
  assert.equal(await (await fetch(url)).text(), 'signed')
  assert.equal((await fetch(url.replace('s.txt', 't.txt'))).status, 401)
  const form = new FormData()
  form.append('file', new Blob(['up']), 'whatever')
  assert.equal((await fetch(await sandbox.uploadUrl('u.txt', { user: 'user' }), { method: 'POST', body: form })).status, 200)
  assert.equal(await sandbox.files.read('u.txt'), 'up')
})

test('metadata and compressed uploads', async (t) => {
  const version = JSON.parse((await import('node:fs')).readFileSync(process.env.E2B_PACKAGES + '/node_modules/e2b/package.json')).version
  const [, minor] = version.split('.').map(Number)
  if (minor < 40) return t.skip(`version ${version} has no metadata of files`)
  const info = await sandbox.files.write('meta.txt', 'x', { metadata: { author: 'me' } })
  assert.deepEqual(info.metadata, { author: 'me' })
  assert.deepEqual((await sandbox.files.getInfo('meta.txt')).metadata, { author: 'me' })
  await sandbox.files.write('zip.txt', 'z'.repeat(100000), { gzip: true })
  assert.equal(await sandbox.files.read('zip.txt'), 'z'.repeat(100000))
})

test('changes below new folders, with their entries', async (t) => {
  await sandbox.files.makeDir('tree')
  const events = []
  let done
  const seen = new Promise((resolve) => { done = resolve })
  const handle = await sandbox.files.watchDir('tree', (event) => {
    events.push(event)
    if (event.type === FilesystemEventType.WRITE && event.name === 'sub/deep.txt') done(event)
  }, { recursive: true, includeEntry: true })
  await sandbox.files.makeDir('tree/sub')
  await sandbox.files.write('tree/sub/deep.txt', '12345')
  const event = await seen
  if (event.entry) assert.deepEqual([event.entry.path, event.entry.size], ['/home/user/tree/sub/deep.txt', 5])
  await handle.stop()
})
