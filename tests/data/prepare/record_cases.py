"""IDX and CIFAR files as numpy writes them, and the pixels that they hold."""

import gzip

import numpy as np

IDX_TYPES = {np.dtype("u1"): 8, np.dtype(">f4"): 13}


def idx(array):
    """The bytes of an IDX file: magic with type and axes, sizes, elements."""
    head = np.array([0, 0, IDX_TYPES[array.dtype], array.ndim], "u1").tobytes()
    return head + np.array(array.shape, ">u4").tobytes() + np.ascontiguousarray(array).tobytes()


def write_mnist(folder, part, images, labels, packed=False):
    """`part`: train or t10k. The path of the images."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        name = f"{part}-{kind}-ubyte"
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))
    return folder / (f"{part}-images-idx3-ubyte" + (".gz" if packed else ""))


def write_cifar(path, images, *labels):
    """`images` [n, 32, 32, 3]; one column of labels for CIFAR-10, the coarse and the fine for CIFAR-100."""
    path.parent.mkdir(parents=True, exist_ok=True)
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    path.write_bytes(np.concatenate([*(np.asarray(x, "u1")[:, None] for x in labels), planes], axis=1).tobytes())
    return path
